"""Connections of a master to its slaves: sends the log as it grows, and receives acknowledgements."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from bolide.broker.core.effects import Effects
from bolide.broker.core.replicas import NoReplicas
from bolide.broker.core.service import Service
from bolide.node.replication.slave_sessions import Holders, MasterSide
from bolide.remoting.bodies.replication import HAConnectionRuntimeInfo
from bolide.replication.caught_up import CaughtUp
from bolide.replication.errors import NotReplicated
from bolide.replication.master import KnownAhead, MasterSession
from bolide.replication.pacing import Pace
from bolide.store.disk.extents import Extent
from bolide.store.disk.file_contract import FileFailed
from bolide.store.errors import RecordDamaged
from bolide.store.message_store import MessageStore
from bolide.store.raw_log import RawLog
from bolide.store.reading.intact import CheckedSpans
from bolide.transport.raw_connection import RawConnection

WRITE_HIGH: Final = 1024 * 1024
"""Maximum unread bytes of a slave. Sending pauses until it has read most of them."""
MOST_SLAVES: Final = 64
SHORT_MS: Final = 10_000
"""Repeated connections of a slave that are shorter, and have the same reports, are logged once."""
TURN_BYTES: Final = 1024 * 1024
"""Bytes of the log that are sent in one turn, to all slaves together."""
WRITE_BYTES: Final = 256 * 1024
"""Bytes of the log to collect for one write, which may contain several transfers."""
GATHER_MS: Final = 20
"""Time after a write during which less than GATHER_BYTES waits for more bytes, unless a send waits for the slave. Each
write wakes two processes and triggers reports. RocketMQ's ASYNC_MASTER polls every 100 ms."""
GATHER_BYTES: Final = 512 * 1024
READ_AHEAD: Final = 1024 * 1024
"""Bytes of the log that the thread pool loads in one job for a slave with a large lag."""


class _Slave:
    """One connection of a slave."""

    def __init__(
        self, key: int, connection: RawConnection, session: MasterSide, spans: CheckedSpans, opened_at: int
    ) -> None:
        self.key = key
        self.connection = connection
        self.session = session
        self.spans = spans
        self.opened_at = opened_at
        self.repeats = False
        """Whether the previous connection of this slave was short and requested the same offset."""
        self.loading = False
        """Whether the thread pool is loading the next bytes."""
        self.began_at = -1
        self.sent_at = -1
        """Time of the last write in ms, or -1 if there was none."""
        self.gathers = False
        """Whether pending bytes wait for more."""
        self.caught_up = CaughtUp()


class LinkHooks(NamedTuple):
    """The parts of `SlaveLinks` that depend on the mode of replication."""

    open_session: Callable[[int, int], MasterSide] | None = None
    """`open_session(key, now)` starts a session of controller mode. None: sessions of default HA mode."""
    woken: Service | None = None
    """Service whose `due` is re-evaluated when a slave connects, or None for `SlaveLinks` itself."""
    short_told: Callable[[bool], None] | None = None
    """Called with True when too few brokers are in sync for sends, and with False when enough are again."""


class SlaveLinks(Service, NoReplicas):
    """The connections of this broker's slaves. Implements `node.loop.host_protocol.Replication`,
    `broker.core.replicas` and `RawOwner`."""

    def __init__(
        self,
        store: MessageStore,
        in_sync: Holders,
        pace: Pace,
        effects: Effects,
        another_turn: Callable[[], None],
        clock: Callable[[], int],
        log: logging.Logger,
        hooks: LinkHooks = LinkHooks(),  # noqa: B008  it cannot change
    ) -> None:
        self._short_told = hooks.short_told
        self._short = False
        self._woken = hooks.woken if hooks.woken is not None else self
        self._open_session = hooks.open_session if hooks.open_session is not None else self._plain
        self._waited_for = in_sync.waits or hooks.open_session is not None
        """Whether a send or the confirm offset may wait for a slave's report."""
        self._store = store
        self._raw = RawLog(store)
        self._in_sync = in_sync
        self._pace = pace
        self._effects = effects
        self._another_turn = another_turn
        self._clock = clock
        self._log = log
        self._ahead = KnownAhead()
        self._slaves: dict[RawConnection, _Slave] = {}
        self._keys = 0
        self._said: dict[str, str] = {}
        self._brief: dict[str, tuple[int, int]] = {}
        """By host, the first offset and the last report of a connection that was short."""

    # ---- connections

    def connected(self, connection: RawConnection) -> None:
        """Accept a connection of a slave."""
        if len(self._slaves) >= MOST_SLAVES:
            # Close a connection that has not sent anything yet, so that clients that only connect cannot lock out
            # slaves.
            last = next((slave.connection for slave in self._slaves.values() if slave.began_at < 0), connection)
            self._refuse(last, NotReplicated(f"{MOST_SLAVES} connections are open"))
            if last is connection:
                return
            self.closed(last)
        self._keys += 1
        now = self._clock()
        session = self._open_session(self._keys, now)
        self._slaves[connection] = _Slave(self._keys, connection, session, CheckedSpans(self._store.log), now)
        self._effects.wake(self._woken)
        self._another_turn()

    def _plain(self, key: int, now: int) -> MasterSide:
        return MasterSession(int(self._store.shape.commit_log_segment_size), self._pace, self._ahead, now)

    def received(self, connection: RawConnection, data: bytes) -> None:
        """Process the reports of a slave."""
        slave = self._slaves.get(connection)
        if slave is None:
            return
        session, now = slave.session, self._clock()
        try:
            reported = session.received(data, int(self._raw.begin), int(self._raw.settled), now)
        except NotReplicated as error:
            self._refuse(connection, error)
            return
        hello = session.answer(int(self._raw.settled), now)
        if hello:
            connection.write(hello)
        if not reported:
            return
        first = slave.began_at < 0
        if first:
            slave.began_at = session.next_offset
            host = host_of(connection)
            slave.repeats = host in self._brief and self._brief[host][0] == slave.began_at
            if not slave.repeats:
                self._log.info("the slave %s follows from offset %d", connection.remote, slave.began_at)
                self._said.pop(host, None)
        if session.acked > slave.began_at:
            self._in_sync.reported(slave.key, session.acked)
        else:
            # The first report of a slave only requests the log from an offset. Its records below may belong to another
            # log: it compares the last ones with the bytes that it is sent.
            self._in_sync.claimed(slave.key, session.acked)
        slave.caught_up.reported(session.acked)
        if first or self._waited_for:
            self._another_turn()

    def writable(self, connection: RawConnection) -> None:
        """Called when a slave has read most pending bytes."""
        self._another_turn()

    def closed(self, connection: RawConnection) -> None:
        """Called when a connection closes."""
        slave = self._slaves.pop(connection, None)
        if slave is None:
            return
        self._in_sync.gone(slave.key)
        self._another_turn()
        if slave.began_at >= 0 and not self._repeated(slave):
            self._log.info(
                "the slave %s has disconnected, its last report was %d", connection.remote, slave.session.acked
            )

    def _repeated(self, slave: _Slave) -> bool:
        """Note the end of a connection. Return whether the one before it was as short and had the same reports."""
        host, reports = host_of(slave.connection), (slave.began_at, slave.session.acked)
        before = self._brief.pop(host, None)
        if self._clock() - slave.opened_at >= SHORT_MS:
            return False
        if len(self._brief) >= MOST_SLAVES:
            self._brief.clear()
        self._brief[host] = reports
        return before == reports

    def served(self) -> bool:
        """Return whether every slave that keeps up has the whole log."""
        end = int(self._raw.settled)
        return not any(
            slave.began_at >= 0 and slave.session.acked < end and self._in_sync.keeps_up(slave.session.acked, end)
            for slave in self._slaves.values()
        )

    def followed_by(self, host: str) -> bool:
        """Return whether a slave at this host holds a part of this log: it has acknowledged bytes, or its first report
        is the end of this log. A slave of RocketMQ does not compare the logs."""
        end = int(self._raw.settled)
        return any(
            0 <= slave.began_at < slave.session.acked or slave.session.acked == end
            for connection, slave in self._slaves.items()
            if host_of(connection) == host
        )

    def close(self, keys: frozenset[int]) -> None:
        """Close these connections and ignore their unread bytes."""
        for connection in [each for each, slave in self._slaves.items() if slave.key in keys]:
            connection.abort()
            self.closed(connection)

    def stop(self) -> None:
        """Close every connection."""
        for connection in list(self._slaves):
            connection.abort()

    def _refuse(self, connection: RawConnection, error: Exception) -> None:
        """Close a connection. Log it once per reason, because a slave retries every few seconds."""
        text, host = str(error), host_of(connection)
        if self._said.get(host) != text:
            if len(self._said) >= MOST_SLAVES:
                self._said.clear()
            self._said[host] = text
            self._log.warning("closing the connection of the slave %s: %s", connection.remote, text)
        connection.abort()

    # ---- turns

    def turn(self, now: int) -> None:
        """Send the safe part of the log, and set the offset up to which the log may be dispatched."""
        if self._waited_for:
            cap = self._in_sync.holds_back(int(self._store.end_offset), now)
            if self._in_sync.waits:
                self._store.replicated_offset = cap
        if self._short_told is not None and self._in_sync.short(int(self._store.end_offset)) != self._short:
            self._short = not self._short
            self._short_told(self._short)
        if not self._slaves:
            return
        budget = TURN_BYTES
        for connection in list(self._slaves):
            slave = self._slaves[connection]
            try:
                budget = self._send(slave, budget, now)
            except (NotReplicated, RecordDamaged, FileFailed) as error:
                self._refuse(connection, error)
            if budget <= 0:
                # Start the next turn with the connections that were not served in this one.
                self._slaves.pop(connection)
                self._slaves[connection] = slave
                self._another_turn()
                return

    def _send(self, slave: _Slave, budget: int, now: int) -> int:
        """Send missing bytes to one slave. Return the remaining budget."""
        session, connection = slave.session, slave.connection
        end = int(self._raw.settled)
        slave.caught_up.looked(session.acked, end, now)
        lacks = end - session.next_offset
        if not self._waited_for and 0 < lacks < GATHER_BYTES and 0 <= now - slave.sent_at < GATHER_MS:
            if not slave.gathers:
                slave.gathers = True
                self._effects.wake(self._woken)
            return budget
        slave.gathers = False
        parts: list[bytes | memoryview] = []
        unwritten = 0
        while budget > 0 and not (slave.loading or connection.paused or connection.closing):
            size = session.wanted(end, now)
            if size <= 0:
                break
            data = self._raw.read(session.next_offset, size, slave.spans)
            if isinstance(data, Extent):
                self._load(slave, end, data)
                break
            if not data:
                raise NotReplicated(
                    f"it lags so far that offset {session.next_offset}, which it needs next, was deleted; delete its "
                    "store, so that it starts with the newest file"
                )
            parts += session.transfer(len(data), now), data
            budget -= len(data)
            unwritten += len(data)
            if unwritten >= WRITE_BYTES:
                connection.write(b"".join(parts))
                parts, unwritten = [], 0
            slave.sent_at = now
        if parts:
            connection.write(b"".join(parts))
        news = b"" if connection.paused or connection.closing else session.news(end, now)
        if news:
            connection.write(news)
        return budget

    def _load(self, slave: _Slave, end: int, missed: Extent) -> None:
        slave.loading = True
        at = slave.session.next_offset
        segments = self._store.log.segments
        size = min(READ_AHEAD, end - at, int(segments.segment_size) - at % int(segments.segment_size))

        def loaded(now: int) -> None:
            slave.loading = False

        self._effects.load([segments.extent(at, size), missed], loaded)

    def late(self, end: int) -> bool:
        """Return whether the record that ends at `end` is not on enough brokers."""
        return self._in_sync.late(end)

    # ---- time

    def due(self, now: int) -> int | None:
        """Return when the next heartbeat, idle check, end of a wait or gathered write is due."""
        times = [slave.session.due() for slave in self._slaves.values()]
        times += [slave.session.limited_until(now) for slave in self._slaves.values()]
        times += [slave.sent_at + GATHER_MS for slave in self._slaves.values() if slave.gathers]
        times.append(self._in_sync.due())
        return min((at for at in times if at >= 0), default=None)

    def tick(self, now: int, budget: int) -> None:
        """Send due heartbeats and disconnect idle slaves."""
        for connection, slave in list(self._slaves.items()):
            if slave.session.silent(now):
                self._refuse(connection, NotReplicated(f"it was silent for {self._pace.silence} ms"))
                continue
            beat = b"" if connection.paused else slave.session.heartbeat(now)
            if beat:
                connection.write(beat)

    # ---- reported state

    def connections(self, now: int) -> list[HAConnectionRuntimeInfo]:
        """Return the state of each slave connection."""
        end = int(self._raw.end)
        told: list[HAConnectionRuntimeInfo] = []
        for connection, slave in list(self._slaves.items()):  # a copy, because other threads may call this
            session = slave.session
            told.append(
                HAConnectionRuntimeInfo(
                    addr=connection.remote,
                    slave_ack_offset=session.acked,
                    diff=end - session.acked,
                    in_sync=self._in_sync.is_in_sync(slave.key, session.acked, end),
                    transferred_byte_in_second=session.last_rate,
                    transfer_from_where=session.next_offset,
                )
            )
        return told

    def lags(self, now: int) -> dict[str, int]:
        """Return the replication lag of each slave in ms."""
        end = int(self._raw.settled)
        return {
            connection.remote: slave.caught_up.lag_ms(slave.session.acked, end, now)
            for connection, slave in list(self._slaves.items())
        }

    def in_sync(self, now: int) -> int:
        """Return the number of slaves in sync."""
        return self._in_sync.count(int(self._raw.end)) - 1


def host_of(connection: RawConnection) -> str:
    """Return the remote address without the port, which changes with each connection."""
    return connection.remote.rpartition(":")[0]
