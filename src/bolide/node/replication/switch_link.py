"""A slave in the auto-switch mode: gives up what its master does not have, then follows its log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from bolide.errors import BolideError
from bolide.node.replication.epoch_log import EpochLog
from bolide.node.replication.link_to_master import LinkToMaster, LoopParts
from bolide.replication.master import Pace
from bolide.replication.switch_frames import Hello
from bolide.replication.switch_slave import Arrived, SwitchSlave
from bolide.store.message_store import MessageStore
from bolide.transport.raw_connection import RawConnection

RETRY_S: Final = 1.0
"""To the next try: a master that was just elected is not one yet."""


class SwitchLink(LinkToMaster):
    """This broker's copy of the log of the master of an epoch."""

    def __init__(
        self,
        store: MessageStore,
        pace: Pace,
        parts: LoopParts,
        hello: Hello,
        epoch_log: EpochLog,
        cut: Callable[[int], Awaitable[None]],
        following: Callable[[], None],
    ) -> None:
        """`cut` cuts the log of the store; `following` is called when this log has become the front of its master's."""
        super().__init__(store, pace, parts)
        self._retry_s = min(self._retry_s, RETRY_S)
        self._hello = hello
        self._epoch_log = epoch_log
        self._cut = cut
        self._following = following
        self._session: SwitchSlave | None = None
        self._working: asyncio.Task[None] | None = None
        """What waits for the disk before more bytes are taken."""
        self._later: list[bytes] = []
        """What arrived meanwhile: at most what was read before reading paused."""

    async def stop(self) -> None:
        """Follow no more. A cut that has begun is finished first."""
        await super().stop()
        await self._quiet()

    async def _quiet(self) -> None:
        while self._working is not None:
            await asyncio.wait([self._working])

    def _begin(self, now: int) -> bytes:
        file_size = int(self._store.shape.commit_log_segment_size)
        self._later = []
        self._session = session = SwitchSlave(
            self._hello, int(self._raw.end), self._epoch_log.epochs, file_size, self._pace, now,
            int(self._store.replicated_offset),
        )  # fmt: skip
        return session.hello(now)

    def _drop(self) -> None:
        self._session = None

    # ---- a connection

    def received(self, connection: RawConnection, data: bytes) -> None:
        """Bytes of the master."""
        session = self._session
        if session is None or connection is not self._connection:
            return
        if self._working is not None:
            self._later.append(data)
            return
        now = self._read_at = self._clock()
        try:
            arrived = session.received(data, now)
            if arrived.cut >= 0 or any(epochs is not None for epochs, _, _ in arrived.runs):
                connection.pause_reading()
                self._working = asyncio.get_running_loop().create_task(self._work(session, connection, arrived))
                return
            for _, offset, part in arrived.runs:
                self._raw.append(offset, part, now)
        except BolideError as error:
            self._end(str(error))
            return
        self._took(session, now)

    async def _work(self, session: SwitchSlave, connection: RawConnection, arrived: Arrived) -> None:
        """Do in order what has to be on disk before what follows it."""
        failed = ""
        try:
            if arrived.cut >= 0:
                await self._agree(session, connection, arrived.cut)
            for epochs, offset, part in arrived.runs:
                if epochs is not None:
                    await self._epoch_log.keep(epochs)
                if part:
                    self._raw.append(offset, part, self._clock())
        except BolideError as error:
            failed = str(error)
        finally:
            self._working = None
        if connection is not self._connection:
            return
        if failed:
            self._end(failed)
            return
        self._took(session, self._clock())
        later, self._later = self._later, []
        connection.resume_reading()
        for data in later:
            self.received(connection, data)

    async def _agree(self, session: SwitchSlave, connection: RawConnection, end: int) -> None:
        """Let this log be the front of the master's: cut the log, then its epochs, then say so."""
        before = int(self._raw.end)
        if end < before:
            lost = end < self._store.replicated_offset
            self._log.warning(
                "cutting this log from %d back to %d: the master %s has another one from there on; %s",
                before,
                end,
                connection.remote,
                "messages that were acknowledged go" if lost else "nothing of what goes was confirmed by the set",
            )
            await self._cut(end)
        await self._epoch_log.cut(end)
        if connection is not self._connection:
            return
        self._write(session.cut_done(end, self._clock()))
        self._follows, self._said = True, ""
        self._log.info("follows the master %s from offset %d", connection.remote, end)
        self._following()

    def _took(self, session: SwitchSlave, now: int) -> None:
        """Let what the set confirms be dispatched."""
        store = self._store
        confirmed = min(session.confirm, int(self._raw.end))
        if session.follows and confirmed > store.replicated_offset:
            store.replicated_offset = confirmed
        self._told_end(session.follows and session.confirm <= int(self._raw.end), now)
        self._another_turn()

    # ---- turns and time

    def turn(self, now: int) -> None:
        """Report what is kept by now."""
        self._turned.set()
        session, connection = self._session, self._connection
        if session is not None and connection is not None and self._working is None and not connection.paused:
            self._write(session.say(int(self._raw.settled), now))

    def due(self, now: int) -> int | None:
        """When a report or a look at a silent master is next."""
        return self._session.due() if self._session is not None and self._working is None else None

    def tick(self, now: int, budget: int) -> None:
        """Notice a master that is silent; the turn after it reports."""
        session = self._session
        if session is not None and self._working is None and session.silent(now):
            self._end(f"it was silent for {self._pace.silence} ms", at_once=True)
