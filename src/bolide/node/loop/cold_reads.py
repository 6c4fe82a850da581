"""Requests that read data that may not be in memory: the thread pool reads it while the loop serves other requests.
Pulls and the end of a transaction do this themselves.

The handler runs until a read misses memory, and restarts once the data is loaded. It must change nothing before its
last read. Loaded data is kept until the response is sent, so that each run gets further even if the page cache is
small.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Cold, Handler, Outcome, reply
from bolide.node.loop.send_gate import busy
from bolide.remoting.command import Command
from bolide.remoting.request_routes import DiskReads, RequestTable
from bolide.store.disk.reads import ColdRead, Fetched
from bolide.store.message_store import MessageStore


class ColdRequest:
    """A request that waits for the disk; not a native class, because it needs weak references."""

    def __init__(self) -> None:
        self.fetched = Fetched()


class ColdReads:
    """Cold requests of one broker. Together they may keep at most `limit` bytes."""

    def __init__(self, store: MessageStore, limit: int) -> None:
        self.limit = limit
        self._store = store
        self._waiting: weakref.WeakSet[ColdRequest] = weakref.WeakSet()

    def around(self, table: RequestTable[Channel, Outcome]) -> None:
        """Wrap the handlers of routes that declare disk reads."""
        for code, row in table.rows.items():
            if row.reads is not DiskReads.NONE:
                table.handlers[code] = self._wrapped(table.handlers[code], row.reads is DiskReads.MANY)

    def configure(self, limit: int) -> None:
        """Apply a new limit."""
        self.limit = limit

    def kept(self) -> int:
        """Return the number of bytes in memory for waiting requests."""
        return sum(int(waiting.fetched.size) for waiting in self._waiting)

    def _wrapped(self, handler: Handler, gather: bool) -> Handler:
        def read(channel: Channel, command: Command, now: int) -> Outcome:
            return self._read(lambda later: handler(channel, command, later), command, ColdRequest(), gather, now)

        return read

    def _read(
        self, run: Callable[[int], Outcome], command: Command, waiting: ColdRequest, gather: bool, now: int
    ) -> Outcome:
        reads = self._store.reads
        reads.begin(waiting.fetched, gather)
        outcome: Outcome | None = None
        try:
            outcome = run(now)
        except ColdRead:
            pass  # `end` returns the missing extents
        finally:
            missing = reads.end()
        if outcome is not None and not missing:
            return outcome
        self._waiting.add(waiting)
        kept = self.kept()
        if kept > self.limit:
            remark = f"requests that wait for the disk keep {kept} bytes, maxColdReadBytes is {self.limit}"
            return reply(busy(command, f"[REJECTREQUEST]{remark}: try again later"))
        return Cold(missing, lambda later: self._read(run, command, waiting, gather, later), waiting.fetched)
