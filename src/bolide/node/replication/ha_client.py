"""Connection of a slave to its master, in both HA modes: reconnects, and passes data to a session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from bolide.access.proven_stream import NotProven
from bolide.access.users import Credentials
from bolide.broker.core.effects import Effects
from bolide.broker.core.replicas import NoReplicas
from bolide.broker.core.service import Service
from bolide.errors import BolideError
from bolide.remoting.bodies.replication import HAClientRuntimeInfo
from bolide.replication.errors import LogKept, NotReplicated
from bolide.replication.pacing import Pace
from bolide.replication.slave import SlaveSession
from bolide.replication.switch_slave import SwitchSlave
from bolide.store.disk.extents import Extent
from bolide.store.message_store import MessageStore
from bolide.store.raw_log import RawLog
from bolide.transport.address import split_address
from bolide.transport.raw_connection import RawConnection
from bolide.transport.raw_proven import connect_proven
from bolide.transport.reasons import reason_of
from bolide.transport.tls_contexts import RenewedContext, current_context
from bolide.world.contract import World
from bolide.world.tasks import end_tasks

CONNECT_TIMEOUT_S: Final = 5.0
WRITE_HIGH: Final = 64 * 1024
READ: Final = 256 * 1024
HEARTBEATS: Final = 2
"""Number of missing heartbeats after which the last report of a master is outdated."""
STEADY_MS: Final = 2000
"""Time without bytes to append until a complete log shows that an earlier failure has been resolved."""


class LoopParts(NamedTuple):
    """Parts of the event loop environment that replication uses."""

    effects: Effects
    another_turn: Callable[[], None]
    clock: Callable[[], int]
    world: World
    log: logging.Logger
    tls: RenewedContext | None = None
    """TLS context for connections to a master."""
    credentials: Credentials | None = None
    """Credentials of the proof between slave and master. None: no proof, or proof by certificates."""
    set_name: str = ""
    """Name of the broker set, part of the proof."""


class HAClient(Service, NoReplicas):
    """Connection of this broker to its master. Implements `node.loop.host_protocol.Replication`, `broker.core.replicas`
    and `RawOwner`. Subclasses implement the protocol of their mode."""

    def __init__(self, store: MessageStore, pace: Pace, parts: LoopParts, woken: Service | None = None) -> None:
        """`woken`: service whose `due` is re-evaluated when a connection starts, or None for this object."""
        self._woken = woken if woken is not None else self
        self._store = store
        self._raw = RawLog(store)
        self._raw.follow()
        self._pace = pace
        self._parts = parts
        self._another_turn = parts.another_turn
        self._clock = parts.clock
        self._log = parts.log
        self._address = self._asked = ""
        """Address of the master, and of the master of the current connection."""
        self._news = asyncio.Event()
        """Set when the address of the master has changed."""
        self._turned = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._connection: RawConnection | None = None
        self._ended = asyncio.Event()
        self._why = ""
        """Reason why the connection ended, or "" if the master closed it."""
        self._at_once = False
        self._said = ""
        self._refused = ""
        """Reason why this slave does not replicate, or "" if it replicates or if no master has responded yet."""
        self._stuck = False
        """Whether `_refused` is the reason until bytes are appended: it occurs after the start of a connection."""
        self._follows = False
        self._followed_at = self._end_then = 0
        """Time when the current connection started to replicate, and the end of the log before its first bytes."""
        self._read_at = 0
        self._wrote_at = 0
        self._has_all = False
        """Whether the log was complete at the last report of the master's end."""
        self._had_all_at = 0
        self._heartbeat = pace.heartbeat
        self._retry_s = pace.heartbeat / 1000  # 5 s, as in RocketMQ

    # ---- connection management

    def follow(self, address: str) -> None:
        """Set the replication address of the master, "" if there is no master. Does not close an open connection."""
        if address != self._address:
            self._address = address
            self._news.set()

    def start(self) -> None:
        """Start to replicate."""
        self._task = asyncio.get_running_loop().create_task(self._keep())

    async def stop(self) -> None:
        """Stop replicating. Received bytes are kept."""
        if self._task is not None:
            await end_tasks([self._task])
        if self._connection is not None:
            self._connection.abort()

    async def _keep(self) -> None:
        while True:
            if not self._address:
                self._news.clear()
                await self._news.wait()
                continue
            address, self._why, self._at_once = self._address, "", False
            self._asked = address
            try:
                address = await self._where(address)
                await self._follow_once(address)
                if not self._why and not self._follows:
                    text = f"the master {address} closes the connection before it sends its log: its log has the reason"
                    self._refuse(text, stuck=False)
                self._say(f"the connection to the master {address} ended{': ' if self._why else ''}{self._why}")
            except (BolideError, OSError) as error:
                text = self._noted(error) if isinstance(error, BolideError) else reason_of(error)
                self._say(f"cannot follow the master {address}: {text}")
            if not self._at_once:
                await asyncio.sleep(self._retry_s)

    def _say(self, text: str) -> None:
        """Log each new reason once, not every attempt."""
        if text != self._said:
            self._said = text
            self._log.warning("%s", text)

    async def _follow_once(self, address: str) -> None:
        """Connect to the master at this address, and replicate from it until the connection closes."""
        host, port = split_address(address)
        await self._quiet()
        while self._raw.settled < self._raw.end:  # bytes of an earlier connection are not safe yet
            self._turned.clear()
            await self._turned.wait()
        self._raw.forget()
        await self._prepare()
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            connection = await self._connect(host, port)
        self._connection = connection
        self._ended.clear()
        self._follows, self._end_then = False, int(self._raw.end)
        try:
            self._write(self._begin(self._clock()))
            self._parts.effects.wake(self._woken)
            self._another_turn()
            if not connection.closing:
                await self._ended.wait()
        finally:
            self._connection = None
            self._drop()
            connection.abort()

    def _failed(self, error: BolideError) -> None:
        """Close the connection because of an error."""
        self._end(self._noted(error))

    def _broken(self, why: str) -> None:
        """Close the connection because its signatures are wrong."""
        self._refuse(why, stuck=self._follows)
        self._end(why)

    def _keeps_log(self) -> None:
        """Called when this slave rejects the master to protect its own log."""

    def _noted(self, error: BolideError) -> str:
        """Return the text of an error, with the command that resolves it; store it for `refused`."""
        text = str(error)
        if isinstance(error, LogKept):
            self._keeps_log()
            text += (
                f"; let a replica lead that has all of it, or stop this broker and truncate its log by "
                f"bolide store truncate {self._store.root} --at {error.at} --yes (-c broker.conf for its file sizes)"
            )
        self._refuse(text, stuck=self._follows or not isinstance(error, (NotReplicated, NotProven)))
        return text

    def _refuse(self, text: str, *, stuck: bool) -> None:
        self._refused = text
        self._stuck = self._stuck or stuck

    def refused(self) -> str:
        """Return why this slave does not replicate, with the command that resolves it, or "" if it replicates."""
        return self._refused

    def shares_log(self) -> bool:
        """Return whether this log is known to be a prefix of the log of the current master. If not, an offset means
        other records there."""
        return self._follows and self._connection is not None and self._asked == self._address

    def _followed(self, connection: RawConnection, offset: int) -> None:
        """Record that this log is a prefix of the master's log."""
        self._follows, self._followed_at = True, self._clock()
        self._end_then = min(self._end_then, int(self._raw.end))
        if self._stuck:  # the same failure may follow, each time
            return
        self._said = self._refused = ""
        self._log.info("follows the master %s from offset %d", connection.remote, offset)

    async def _read(self, offset: int, end: int) -> bytes:
        """Return the local bytes between two offsets. Bytes that are not in memory are loaded by the thread pool."""
        parts: list[bytes | memoryview] = []
        while offset < end:
            got = self._raw.read(offset, min(READ, end - offset))
            if isinstance(got, Extent):
                await self._loaded(got)
                continue
            if not got:
                raise NotReplicated(f"this log has no bytes at offset {offset}")
            parts.append(got)
            offset += len(got)
        return b"".join(parts)

    async def _loaded(self, extent: Extent) -> None:
        done = asyncio.Event()

        def loaded(now: int) -> None:
            done.set()

        self._parts.effects.load([extent], loaded)
        self._another_turn()
        await done.wait()

    async def _where(self, address: str) -> str:
        """Return the address to connect to. `address`: from a name server or a setting."""
        return address

    async def _connect(self, host: str, port: int) -> RawConnection:
        parts = self._parts
        made = partial(RawConnection, self, WRITE_HIGH)
        if parts.credentials is not None:
            return await connect_proven(parts.world, made, host, port, parts.credentials, parts.set_name, self._broken)
        return await parts.world.connect(made, host, port, current_context(parts.tls))

    async def _quiet(self) -> None:
        """Wait until the work of an earlier connection has finished."""

    async def _prepare(self) -> None:
        """Prepare the state that a new connection needs."""

    def _begin(self, now: int) -> bytes:
        """Start the session of a connection. Return the first bytes to send."""
        return b""

    def _drop(self) -> None:
        """Drop the session of a closed connection."""

    # ---- a connection

    def connected(self, connection: RawConnection) -> None:
        """Do nothing: `_follow_once` sends the first bytes."""

    def received(self, connection: RawConnection, data: bytes) -> None:
        """Pass bytes of the master to the session."""

    def writable(self, connection: RawConnection) -> None:
        """Called when the master has read pending reports."""
        self._another_turn()

    def closed(self, connection: RawConnection) -> None:
        """Called when the connection closes."""
        if connection is self._connection:
            self._ended.set()

    def _check(self, session: SlaveSession | SwitchSlave, now: int) -> None:
        """Close the connection if the master is idle for too long or does not send the bytes to compare."""
        if session.silent(now):
            self._end(f"it was silent for {self._pace.silence} ms", at_once=True)
            return
        try:
            session.check(now)
        except NotReplicated as error:
            self._failed(error)

    def _end(self, why: str, at_once: bool = False) -> None:
        self._why, self._at_once = why, at_once
        if self._connection is not None:
            self._connection.abort()
        self._ended.set()

    def _write(self, data: bytes) -> None:
        if data and self._connection is not None:
            self._connection.write(data)
            self._wrote_at = self._clock()

    def late(self, end: int) -> bool:
        """Return False: no send waits for slaves of a slave."""
        return False

    def link(self, now: int) -> HAClientRuntimeInfo:
        """Return the state of the connection to the master."""
        return HAClientRuntimeInfo(
            master_addr=self._address,
            max_offset=int(self._raw.end),
            last_read_timestamp=self._read_at,
            last_write_timestamp=self._wrote_at,
            is_activated=self._follows,
        )

    def lag_ms(self, now: int) -> int:
        """Return the replication lag in ms: 0 if caught up, -1 if this slave was never caught up.

        An idle master reports its end only in heartbeats. The slave lags once two of them are missing.
        """
        if self._has_all and now - self._had_all_at <= HEARTBEATS * self._heartbeat:
            return 0
        return now - self._had_all_at if self._had_all_at else -1

    def _told_end(self, has_all: bool, now: int) -> None:
        """Record a report of the master's end, after its bytes were appended."""
        steady = has_all and now - self._followed_at >= STEADY_MS
        if self._stuck and self._follows and (steady or self._raw.end > self._end_then):
            self._stuck, self._said, self._refused = False, "", ""
            self._log.info("follows the master %s again, up to offset %d", self._address, int(self._raw.end))
        self._has_all = has_all
        if has_all:
            self._had_all_at = now
