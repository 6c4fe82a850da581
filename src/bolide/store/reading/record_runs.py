"""Reads records at known positions with few calls: nearby records are read together.

Used for delayed messages: when they are due, the broker reads and stores them again by the thousand.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from bolide.layout.errors import RecordError
from bolide.layout.record import Record, decode_record
from bolide.store.disk.segments import Extent
from bolide.store.log.commit_log import CommitLog
from bolide.store.reading.intact import check_if_read, unreadable

GAP: Final = 2048
"""Maximum number of bytes between two records that are read together: reading them costs less than a system call."""
SPAN: Final = 256 * 1024


@final
class RecordRuns:
    """A window on the log that moves between positions."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._data: bytes = b""
        self._begin: i64 = 0
        self.cold: Extent | None = None
        """Extent to load into memory after `bring` returned False."""

    def bring(self, places: list[tuple[int, int]], first: int, wait: bool) -> bool:
        """Load the record at index `first` of `places` (physical offset, size) into the window, with nearby records
        after it.

        Return False if it is not in memory. The caller must then load `cold` and retry. With `wait`, wait for the disk
        instead.
        """
        begin: i64 = places[first][0]
        size: i64 = places[first][1]
        at = begin - self._begin
        if at >= 0 and at + size <= len(self._data):
            return True
        self._data = b""
        log = self._log
        if size <= 0 or begin < log.segments.min_offset or begin + size > log.written_offset:
            return True  # deleted or invalid: `record` returns None
        segment_end = begin - begin % log.segment_size + log.segment_size
        end = begin + size
        index: i64 = first + 1
        while index < len(places):
            start: i64 = places[index][0]
            stop = start + places[index][1]
            if start < end or start - end > GAP or stop - begin > SPAN or stop > segment_end:
                break
            end = stop
            index += 1
        if end > log.written_offset:
            end = begin + size
        if end > segment_end:
            return True
        data = log.segments.read_warm(begin, end - begin)
        if data is None and end > begin + size:
            # More is requested now than was loaded, but the record itself may be in memory.
            data = log.segments.read_warm(begin, size)
        if data is None:
            log.evicted(begin)
            if not wait:
                self.cold = log.segments.extent(begin, end - begin)
                return False
            data = log.segments.read(begin, end - begin)
        self._data = data
        self._begin = begin
        return True

    def record(self, physical_offset: i64, size: i64) -> Record | None:
        """Return a record in the window, or None if it is incomplete. Its body is not checked."""
        at = physical_offset - self._begin
        if at < 0 or at + size > len(self._data):
            return None
        try:
            record = decode_record(self._data, at)
        except RecordError:
            return None
        return record if record.physical_offset == physical_offset else None

    def intact(self, physical_offset: i64, size: i64) -> Record | None:
        """Return a record in the window, or None if the log has no such position.

        Raises `RecordDamaged` if the record cannot be decoded or does not match its CRC.
        """
        record = self.record(physical_offset, size)
        if record is not None:
            check_if_read(record, self._log)
        elif self._begin <= physical_offset and physical_offset + size <= self._begin + len(self._data):
            raise unreadable(physical_offset, self._log)
        return record

    def close(self) -> None:
        """Free the memory."""
        self._data = b""
