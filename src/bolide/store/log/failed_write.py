"""Wipes the bytes that a failed write may have left beyond the end of the log, before the next write."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from bolide.layout.record import BLANK_SIZE
from bolide.store.disk.segments import SegmentList


@final
class FailedWrite:
    """The remains of the failed writes of one log. Offsets are physical offsets."""

    def __init__(self, segments: SegmentList) -> None:
        self.end: i64 = 0
        """End of the remains, or 0 without remains."""
        self._segments = segments
        self._starts: list[int] = []
        """Start offsets of records in the remains, ascending."""

    def note(self, starts: list[int], end: i64) -> None:
        """Record a failed write of records that start at `starts` and end at `end`."""
        self._starts = starts
        self.end = end

    def wipe(self, written_offset: i64) -> None:
        """Zero the file from the end of the log to the end of the remains. Raises `FileFailed` if that fails."""
        size: i64 = self.end - written_offset
        if size > 0 and self._segments.path_at(written_offset) != "":
            # After a crash before this, the next start may recover complete records of a failed write. Their sends
            # failed, which guarantees nothing, so they are at worst duplicates of a retried send. Wipe the last record
            # first: if the disk fails in between, no valid record may follow invalid bytes, because that is damage.
            while self._starts:
                self._segments.write(self._starts[-1], [bytes(BLANK_SIZE)])
                self._starts.pop()
            self._segments.write(written_offset, [bytes(size)])
        self._starts = []
        self.end = 0
