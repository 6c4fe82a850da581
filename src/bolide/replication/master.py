"""A master's side of one connection in default HA mode (docs/protocol/ha.md 1, DefaultHAConnection.java).

Java also serves a slave whose log differs, which silently corrupts that log. Bolide closes the connection with an
error.
"""

from __future__ import annotations

from typing import Final

from bolide.replication.errors import NotReplicated
from bolide.replication.frames import ReportReader, encode_header
from bolide.replication.pacing import Pace, PacedSession

_REMEMBERED: Final = 64


class KnownAhead:
    """End offsets reported by slaves with another log: above the end of this log, or below the first byte sent.

    Such a slave has records that this log will never contain, or has them at other offsets. It must not be served later
    either, when this log has grown past its end, because the next bytes do not continue its log.
    """

    def __init__(self) -> None:
        self._ends: dict[int, int] = {}
        self._misplaced: dict[int, str] = {}

    def misplaced(self, reported: int, start: int, file_size: int) -> NotReplicated:
        """Return the error for a slave that was empty, received this log starting at `start`, and then reported a lower
        end. `check` raises it for this end from now on."""
        why = (
            f"it was empty, was sent this log from offset {start} on, and reports the end {reported}: its "
            f"mappedFileSizeCommitLog is larger than the {file_size} here; set the same size, and delete its store"
        )
        if len(self._misplaced) >= _REMEMBERED:
            del self._misplaced[next(iter(self._misplaced))]
        self._misplaced[reported] = why
        return NotReplicated(why)

    def check(self, reported: int, end: int) -> None:
        """Raise `NotReplicated` if a reported end belongs to a log that differs from this one."""
        if reported in self._misplaced:
            raise NotReplicated(self._misplaced[reported])
        if reported > end and reported not in self._ends:
            if len(self._ends) >= _REMEMBERED:
                del self._ends[next(iter(self._ends))]
            self._ends[reported] = end
        was = self._ends.get(reported)
        if was is not None:
            raise NotReplicated(
                f"its log reached offset {reported} when this log ended at {was}: it contains records that this log "
                "lacks; delete its store, so that it starts with a copy"
            )


class MasterSession(PacedSession):
    """One slave. `begin` and `end` bound the part of the log that may be sent; `now` is ms."""

    def __init__(self, file_size: int, pace: Pace, ahead: KnownAhead, now: int) -> None:
        super().__init__(pace, heard_at=now, wrote_at=now - pace.heartbeat)
        self._file_size = file_size
        self._ahead = ahead
        self._reports = ReportReader()
        self._empty_from = 0
        """Start offset of a slave that was empty, otherwise 0. The slave's first file starts there. So it reports 0
        until it has the first bytes, and then an offset above the start."""

    def received(self, data: bytes, begin: int, end: int, now: int) -> bool:
        """Process bytes from the slave. Return whether it reported. Raises `NotReplicated`."""
        self._heard_at = now
        reported = self._reports.receive(data)
        if reported is None:
            return False
        if self.next_offset < 0:
            self._ahead.check(reported, end)
            self.next_offset = self._start(reported, begin, end)
            self._empty_from = self.next_offset if reported == 0 else 0
        elif reported > self.next_offset:
            raise NotReplicated(f"it reports the end {reported}, but was sent nothing beyond {self.next_offset}")
        elif 0 < reported < self._empty_from:
            raise self._ahead.misplaced(reported, self._empty_from, self._file_size)
        self.acked = reported
        return True

    def answer(self, end: int, now: int) -> bytes:
        """Return b"": default HA mode has no handshake."""
        return b""

    def news(self, end: int, now: int) -> bytes:
        """Return b"": default HA mode sends no confirm offset."""
        return b""

    def _start(self, reported: int, begin: int, end: int) -> int:
        if reported == 0:
            # As in RocketMQ, an empty slave starts with the newest file.
            return max(end - end % self._file_size, begin)
        if reported < begin:
            raise NotReplicated(
                f"its log ends at offset {reported}, and this log starts at {begin}: the records between them are "
                "deleted; delete its store, so that it starts with the newest file"
            )
        return reported

    def wanted(self, end: int, now: int) -> int:
        """Return the number of bytes to send now, starting at `next_offset`, all within one file."""
        at = self.next_offset
        if at < 0 or at >= end:
            return 0
        return self._allowed(min(end - at, self._pace.batch, self._file_size - at % self._file_size), now)

    def transfer(self, size: int, now: int) -> bytes:
        """Return the header of a transfer. The caller appends `size` bytes."""
        header = encode_header(self.next_offset, size)
        self._count(size, now)
        self._wrote_at = now
        return header

    def heartbeat(self, now: int) -> bytes:
        """Return a heartbeat if one is due, else b""."""
        if self.next_offset < 0 or now - self._wrote_at <= self._pace.heartbeat:
            return b""
        self._wrote_at = now
        return encode_header(self.next_offset, 0)
