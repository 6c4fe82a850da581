"""Requests that read what may not be in memory: the pool reads it for them, and the loop serves others. Pulls do this
themselves, and so does the end of a transaction, which reads after it has changed something.

The handler runs until it misses something, and runs again from its start once that is fetched: it changes nothing
before its last read. What was fetched is kept until the answer, so that it gets further each time even when the page
cache is small.
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
    """Of one broker. `limit` bytes may be kept for all requests that wait for the disk."""

    def __init__(self, store: MessageStore, limit: int) -> None:
        self.limit = limit
        self._store = store
        self._waiting: weakref.WeakSet[ColdRequest] = weakref.WeakSet()

    def around(self, table: RequestTable[Channel, Outcome]) -> None:
        """Wrap the handlers whose rows say that they read."""
        for code, row in table.rows.items():
            if row.reads is not DiskReads.NONE:
                table.handlers[code] = self._wrapped(table.handlers[code], row.reads is DiskReads.MANY)

    def configure(self, limit: int) -> None:
        """Apply a new limit."""
        self.limit = limit

    def kept(self) -> int:
        """Bytes kept for requests that wait."""
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
            pass  # `end` returns what it missed
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
