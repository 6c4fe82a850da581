"""A slave in default HA mode: replicates the log of its master and reports the durable end."""

from __future__ import annotations

from bolide.errors import BolideError
from bolide.node.replication.ha_client import HAClient, LoopParts
from bolide.replication.pacing import Pace
from bolide.replication.slave import SlaveSession, compare_from
from bolide.store.message_store import MessageStore
from bolide.transport.raw_connection import RawConnection


class DefaultHAClient(HAClient):
    """Connection of a slave to its master in default HA mode."""

    def __init__(self, store: MessageStore, pace: Pace, parts: LoopParts) -> None:
        super().__init__(store, pace, parts)
        self._session: SlaveSession | None = None
        self._end_before = 0
        self._tail = b""

    async def _prepare(self) -> None:
        end, file_size = int(self._raw.end), int(self._store.shape.commit_log_segment_size)
        begin = compare_from(int(self._raw.begin), end, int(self._store.log.max_record_size), file_size)
        self._tail = await self._read(begin, end)
        self._end_before = end

    def _begin(self, now: int) -> bytes:
        file_size = int(self._store.shape.commit_log_segment_size)
        self._session = session = SlaveSession(self._end_before, self._tail, file_size, self._pace, now)
        self._tail = b""
        return session.hello(now)

    def _drop(self) -> None:
        self._session = None

    # ---- a connection

    def received(self, connection: RawConnection, data: bytes) -> None:
        """Append bytes of the master's log."""
        session = self._session
        if session is None or connection is not self._connection:
            return
        now = self._read_at = self._clock()
        try:
            piece = session.received(data, now)
            if piece.data:
                self._raw.append(piece.offset, piece.data, now)
        except BolideError as error:
            self._failed(error)
            return
        self._told_end(session.has_all, now)
        if session.compared and not self._follows:
            self._followed(connection, session.end - len(piece.data))
        self._another_turn()

    # ---- turns and time

    def turn(self, now: int) -> None:
        """Report the durable end of the log."""
        self._turned.set()
        session, connection = self._session, self._connection
        if session is not None and connection is not None and not connection.paused:
            self._write(session.report(int(self._raw.settled), now))

    def due(self, now: int) -> int | None:
        """Return when a report or a check of the master is due next."""
        return self._session.due() if self._session is not None else None

    def tick(self, now: int, budget: int) -> None:
        """Check whether the master is idle or withholds bytes to compare. The next turn sends a due report."""
        if self._session is not None:
            self._check(self._session, now)
