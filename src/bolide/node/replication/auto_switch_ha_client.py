"""A slave in the auto-switch mode: truncates unconfirmed bytes that its master lacks, then replicates its log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from bolide.broker.core.service import Service
from bolide.errors import BolideError
from bolide.node.replication.epoch_log import EpochLog
from bolide.node.replication.ha_client import HAClient, LoopParts
from bolide.replication.held_by_set import HeldBySet
from bolide.replication.pacing import Pace
from bolide.replication.switch_frames import Hello
from bolide.replication.switch_slave import Arrived, OwnLog, SwitchSlave
from bolide.store.message_store import MessageStore
from bolide.transport.raw_connection import RawConnection

RETRY_S: Final = 1.0
"""Pause before the next attempt: a broker that was just elected has not assumed its role yet."""


class FollowedMaster(NamedTuple):
    """The master of a slave, and the state of the slave's log."""

    epoch: int
    """The epoch of the master."""
    log_address: Callable[[], Awaitable[str]]
    """Queries the master for the address of its log; returns "" if it does not respond."""
    hello: Hello
    epoch_log: EpochLog
    held: HeldBySet
    all_confirm: bool
    """Whether every in-sync replica must acknowledge a record (allAckInSyncStateSet)."""
    set_progress_back: Callable[[], object]
    """Clamps progress to the ends of queues. Raises `FileFailed`."""
    set_name: str
    """Name of the set of both brokers."""


class AutoSwitchHAClient(HAClient):
    """Connection of a slave to the master of an epoch."""

    def __init__(
        self,
        store: MessageStore,
        pace: Pace,
        parts: LoopParts,
        followed: FollowedMaster,
        cut: Callable[[int], Awaitable[None]],
        following: Callable[[bool], None],
        woken: Service,
    ) -> None:
        """`cut` truncates the store's log. `following` is called with True once this log is a prefix of the master's,
        with False if this slave rejects the master."""
        super().__init__(store, pace, parts, woken)
        self._retry_s = min(self._retry_s, RETRY_S)
        self._followed_by = followed
        self._epoch_log = followed.epoch_log
        self._held = followed.held
        self._cut = cut
        self._following = following
        self._session: SwitchSlave | None = None
        self._cut_said = (-1, -1)
        """The truncation that was logged last."""
        self._progress_due = True
        """Whether progress beyond the ends of queues may belong to a log that was lost."""
        self._working: asyncio.Task[None] | None = None
        """Task that waits for the disk. Received bytes are queued until it has finished."""
        self._later: list[bytes] = []
        """Bytes received during this task: at most those read before reading was paused."""

    async def stop(self) -> None:
        """Stop replicating. Finishes a truncation in progress."""
        await super().stop()
        await self._quiet()

    async def _where(self, address: str) -> str:
        """Prefer the address that the master returns, because a name server accepts registrations from any client."""
        return await self._followed_by.log_address() or address

    async def _quiet(self) -> None:
        while self._working is not None:
            await asyncio.wait([self._working])

    def _begin(self, now: int) -> bytes:
        file_size = int(self._store.shape.commit_log_segment_size)
        self._later = []
        of, raw = self._followed_by, self._raw
        own = OwnLog(int(raw.end), self._epoch_log.epochs, file_size, self._held.offset, int(raw.begin))
        self._session = session = SwitchSlave(of.hello, own, of.epoch, self._pace, now, of.all_confirm, of.set_name)
        return session.hello(now)

    def _drop(self) -> None:
        self._session = None

    # ---- a connection

    def received(self, connection: RawConnection, data: bytes) -> None:
        """Process bytes of the master."""
        session = self._session
        if session is None or connection is not self._connection:
            return
        if self._working is not None:
            self._later.append(data)
            return
        now = self._read_at = self._clock()
        try:
            arrived = session.received(data, now)
            if arrived.cut >= 0 or arrived.compare or any(epochs is not None for epochs, _, _ in arrived.runs):
                connection.pause_reading()
                self._working = asyncio.get_running_loop().create_task(self._work(session, connection, arrived))
                return
            for _, offset, part in arrived.runs:
                self._raw.append(offset, part, now)
        except BolideError as error:
            self._failed(error)
            return
        self._took(session, now)

    async def _work(self, session: SwitchSlave, connection: RawConnection, arrived: Arrived) -> None:
        """Perform the actions in order. Each one is durable before the next one starts."""
        failed: BolideError | None = None
        try:
            if arrived.compare is not None:
                tail = await self._read(*arrived.compare)
                if connection is self._connection:
                    self._write(session.comparing(tail, self._clock()))
            if arrived.cut >= 0:
                await self._agree(session, connection, arrived.cut)
            for epochs, offset, part in arrived.runs:
                if epochs is not None:
                    await self._epoch_log.keep(epochs)
                if part:
                    self._raw.append(offset, part, self._clock())
        except BolideError as error:
            failed = error
        finally:
            self._working = None
        if connection is not self._connection:
            return
        if failed is not None:
            self._failed(failed)
            return
        self._took(session, self._clock())
        later, self._later = [b"", *self._later], []
        connection.resume_reading()
        for data in later:
            self.received(connection, data)

    async def _agree(self, session: SwitchSlave, connection: RawConnection, end: int) -> None:
        """Make this log a prefix of the master's: truncate the log, then its epochs, then report."""
        before = int(self._raw.end)
        if end < before:
            if self._cut_said != (before, end):
                self._cut_said = before, end
                self._log.warning(
                    "truncating this log from %d to %d: it diverges there from the log of master %s, and no "
                    "confirmation of its end has arrived; a copy is in %s",
                    before,
                    end,
                    connection.remote,
                    self._store.log_cut.folder,
                )
            self._progress_due = True
            await self._cut(end)
        await self._epoch_log.cut(end)
        if connection is not self._connection:
            return
        if self._progress_due:  # before the first record of this master gets the offset of a lost one
            self._followed_by.set_progress_back()
            self._progress_due = False
        self._write(session.cut_done(end, self._clock()))
        self._followed(connection, end)
        self._following(True)

    def _keeps_log(self) -> None:
        self._following(False)

    def shares_log(self) -> bool:
        """Return whether this log is known to be a prefix of the master's. This object has one master, whatever
        addresses a name server returns."""
        return self._follows and self._connection is not None

    def _took(self, session: SwitchSlave, now: int) -> None:
        """Raise the offset up to which the log may be dispatched to the confirm offset."""
        store = self._store
        confirmed = min(session.confirm, int(self._raw.end))
        if session.follows and confirmed > store.replicated_offset:
            store.replicated_offset = confirmed
        if session.follows:
            self._held.told(min(session.held, int(self._raw.end)))
        self._told_end(session.follows and session.confirm <= int(self._raw.end), now)
        self._another_turn()

    # ---- turns and time

    def turn(self, now: int) -> None:
        """Report the durable end of the log."""
        self._turned.set()
        session, connection = self._session, self._connection
        if session is not None and connection is not None and self._working is None and not connection.paused:
            self._write(session.say(int(self._raw.settled), now))

    def due(self, now: int) -> int | None:
        """Return when a report or a check of the master is due next."""
        return self._session.due() if self._session is not None and self._working is None else None

    def tick(self, now: int, budget: int) -> None:
        """Close the connection if the master is idle for too long or does not send the bytes to compare."""
        if self._session is not None and self._working is None:
            self._check(self._session, now)
