"""A slave: follows the log of its master, and says what it keeps of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from bolide.broker.core.effects import Effects
from bolide.broker.core.service import Service
from bolide.errors import BolideError
from bolide.remoting.bodies.replication import HAClientRuntimeInfo, HAConnectionRuntimeInfo
from bolide.replication.errors import NotReplicated
from bolide.replication.master import Pace
from bolide.replication.slave import SlaveSession, compare_from
from bolide.store.extents import Extent
from bolide.store.message_store import MessageStore
from bolide.store.raw_log import RawLog
from bolide.transport.address import split_address
from bolide.transport.raw_connection import RawConnection
from bolide.transport.reasons import reason_of
from bolide.world.contract import World

CONNECT_TIMEOUT_S: Final = 5.0
WRITE_HIGH: Final = 64 * 1024
READ: Final = 256 * 1024


class MasterLink(Service):
    """This broker's copy of its master's log. Implements `node.loop.host_protocol.Replication`,
    `broker.core.replicas` and `RawOwner`."""

    def __init__(
        self,
        store: MessageStore,
        pace: Pace,
        effects: Effects,
        another_turn: Callable[[], None],
        clock: Callable[[], int],
        world: World,
        log: logging.Logger,
    ) -> None:
        self._store = store
        self._raw = RawLog(store)
        self._raw.follow()
        self._pace = pace
        self._effects = effects
        self._another_turn = another_turn
        self._clock = clock
        self._world = world
        self._log = log
        self._address = ""
        self._news = asyncio.Event()
        """Set when the address of the master became known or another."""
        self._turned = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._connection: RawConnection | None = None
        self._session: SlaveSession | None = None
        self._ended = asyncio.Event()
        self._why = ""
        """Why the connection ended; "" when the master closed it."""
        self._at_once = False
        self._said = ""
        self._follows = False
        self._read_at = 0
        self._wrote_at = 0
        self._had_all_at = 0

    # ---- the life of connections

    def follow(self, address: str) -> None:
        """The master replicates at this address; "" when there is none. A live connection stays."""
        if address != self._address:
            self._address = address
            self._news.set()

    def start(self) -> None:
        """Begin to follow."""
        self._task = asyncio.get_running_loop().create_task(self._keep())

    async def stop(self) -> None:
        """Follow no more; what was received stays."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._connection is not None:
            self._connection.abort()

    async def _keep(self) -> None:
        while True:
            if not self._address:
                self._news.clear()
                await self._news.wait()
                continue
            address, self._why, self._at_once = self._address, "", False
            try:
                await self._follow_once(address)
                self._say(f"the connection to the master {address} ended{': ' if self._why else ''}{self._why}")
            except (BolideError, OSError) as error:
                text = reason_of(error) if isinstance(error, OSError) else str(error)
                self._say(f"cannot follow the master {address}: {text}")
            if not self._at_once:
                await asyncio.sleep(self._pace.heartbeat / 1000)  # 5 s, as in RocketMQ

    def _say(self, text: str) -> None:
        """One line for each new reason, not one for each try."""
        if text != self._said:
            self._said = text
            self._log.warning("%s", text)

    async def _follow_once(self, address: str) -> None:
        """Connect and follow until the connection ends."""
        host, port = split_address(address)
        while self._raw.settled < self._raw.end:  # what an earlier connection brought is not kept yet
            self._turned.clear()
            await self._turned.wait()
        self._raw.forget()
        end, file_size = int(self._raw.end), int(self._store.shape.commit_log_segment_size)
        begin = compare_from(int(self._raw.begin), end, int(self._store.log.max_record_size), file_size)
        tail = await self._read(begin, end)
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            connection = await self._world.connect(lambda: RawConnection(self, WRITE_HIGH), host, port, None)
        now = self._clock()
        self._session = session = SlaveSession(end, tail, file_size, self._pace, now)
        self._connection = connection
        self._ended.clear()
        self._follows = False
        self._write(session.hello(now))
        self._effects.wake(self)
        self._another_turn()
        try:
            if not connection.closing:
                await self._ended.wait()
        finally:
            self._session = self._connection = None
            connection.abort()

    async def _read(self, offset: int, end: int) -> bytes:
        """The own bytes between two offsets, loaded by the pool where they are not in memory."""
        parts: list[bytes] = []
        while offset < end:
            got = self._raw.read(offset, min(READ, end - offset))
            if isinstance(got, Extent):
                await self._loaded(got)
                continue
            if not got:
                raise NotReplicated(f"the own log has no bytes at offset {offset}")
            parts.append(got)
            offset += len(got)
        return b"".join(parts)

    async def _loaded(self, extent: Extent) -> None:
        done = asyncio.Event()

        def loaded(now: int) -> None:
            done.set()

        self._effects.load([extent], loaded)
        self._another_turn()
        await done.wait()

    # ---- a connection

    def connected(self, connection: RawConnection) -> None:
        """The connection is there; `_follow_once` speaks first."""

    def received(self, connection: RawConnection, data: bytes) -> None:
        """Bytes of the master's log."""
        session = self._session
        if session is None or connection is not self._connection:
            return
        now = self._read_at = self._clock()
        try:
            piece = session.received(data, now)
            if piece.data:
                self._raw.append(piece.offset, piece.data, now)
        except BolideError as error:
            self._end(str(error))
            return
        if session.has_all:
            self._had_all_at = now
        if session.compared and not self._follows:
            self._follows, self._said = True, ""
            self._log.info("follows the master %s from offset %d", connection.remote, session.end - len(piece.data))
        self._another_turn()

    def writable(self, connection: RawConnection) -> None:
        """The master has read what was reported."""
        self._another_turn()

    def closed(self, connection: RawConnection) -> None:
        """The connection ended."""
        if connection is self._connection:
            self._ended.set()

    def _end(self, why: str, at_once: bool = False) -> None:
        self._why, self._at_once = why, at_once
        if self._connection is not None:
            self._connection.abort()
        self._ended.set()

    def _write(self, data: bytes) -> None:
        if data and self._connection is not None:
            self._connection.write(data)
            self._wrote_at = self._clock()

    # ---- turns and time

    def turn(self, now: int) -> None:
        """Report what is kept by now."""
        self._turned.set()
        session, connection = self._session, self._connection
        if session is not None and connection is not None and not connection.paused:
            self._write(session.report(int(self._raw.settled), now))

    def late(self, end: int) -> bool:
        """No send waits for a slave's slaves."""
        return False

    def due(self, now: int) -> int | None:
        """When a report or a look at a silent master is next."""
        return self._session.due() if self._session is not None else None

    def tick(self, now: int, budget: int) -> None:
        """Notice a master that is silent or does not send what is compared; the turn after it reports."""
        session = self._session
        if session is None:
            return
        if session.silent(now):
            self._end(f"it was silent for {self._pace.silence} ms", at_once=True)
            return
        try:
            session.check(now)
        except NotReplicated as error:
            self._end(str(error))

    def connections(self, now: int) -> list[HAConnectionRuntimeInfo]:
        """A slave has no slaves."""
        return []

    def in_sync(self, now: int) -> int:
        """A slave has no slaves."""
        return 0

    def link(self, now: int) -> HAClientRuntimeInfo:
        """The link to the master."""
        return HAClientRuntimeInfo(
            master_addr=self._address,
            max_offset=int(self._raw.end),
            last_read_timestamp=self._read_at,
            last_write_timestamp=self._wrote_at,
            is_activated=self._follows,
        )

    def lag_ms(self, now: int) -> int:
        """How long ago all of the master's log was here, as far as its transfers tell; -1 when none has told."""
        return now - self._had_all_at if self._had_all_at else -1
