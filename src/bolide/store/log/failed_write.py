"""The bytes that a failed write may have left beyond the end of the log, which are wiped before the next write."""

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
        """Where the remains end; 0 when there are none."""
        self._segments = segments
        self._starts: list[int] = []
        """Where records begin in them, in ascending order."""

    def note(self, starts: list[int], end: i64) -> None:
        """A write of records that begin at `starts` and end at `end` failed."""
        self._starts = starts
        self.end = end

    def wipe(self, written_offset: i64) -> None:
        """Zero the file from the end of the log to the end of the remains. Raise `FileFailed` if that fails."""
        size: i64 = self.end - written_offset
        if size > 0 and self._segments.path_at(written_offset) != "":
            # Crash before this: whole records of a failed write may come back at the next start. They were answered
            # with an error, which promises nothing, so they are duplicates of a retried send at worst. The last record
            # goes first: a disk that fails in between must not leave good records after bad bytes, which are damage.
            while self._starts:
                self._segments.write(self._starts[-1], [bytes(BLANK_SIZE)])
                self._starts.pop()
            self._segments.write(written_offset, [bytes(size)])
        self._starts = []
        self.end = 0
