"""Creates log files and allocates blocks ahead of the writer (AllocateMappedFileService).

Blocks are allocated well ahead, so that a full disk is detected there and not at a message; and in steps, so that a
store with three messages does not use a gigabyte. The pool does the work; this module decides what is due.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from bolide.store.disk.segments import RESERVE_FIRST, Extent, SegmentList

RESERVE_STEP: Final = 64 * 1024 * 1024
"""Maximum number of bytes allocated in one step. Steps start at `RESERVE_FIRST` and double."""


@final
class FilesAhead:
    """Files ahead of one log. Offsets are physical offsets; `end` is the end of the log."""

    def __init__(self, segments: SegmentList) -> None:
        self._segments = segments
        self._segment_size: i64 = segments.segment_size
        self._ready: i64 = -1
        self._asked: i64 = -1
        self._step: i64 = RESERVE_FIRST
        self._reserved: i64 = 0
        """Up to here the file in use has real blocks, or the pool is about to give it some."""
        self._step_at: i64 = 0
        """Once the log ends beyond this, the next blocks are reserved."""

    def start_at(self, end: i64) -> None:
        """Set the end of the log, with unknown files and blocks ahead of it."""
        self._reserved = self._step_at = end
        self._ready = self._asked = -1

    def enter(self, start: i64) -> None:
        """Continue the log in the file that starts here. Raises `DiskFull` or `FileFailed`."""
        if self._ready == start:
            self._segments.adopt(start)
            self._ready = -1
            self._reserve_to(start + self.first_blocks())
        else:
            # The pool was late or never started: this takes a few ms on the loop. If both create the same file, they do
            # the same, and neither changes a byte.
            self._segments.create_at(start)
            self._reserve_to(start + min(RESERVE_FIRST, self._segment_size))

    def next_segment(self, end: i64) -> i64:
        """Return the start of the file to create ahead now, or -1. Each is returned once."""
        within = end % self._segment_size
        start = end - within + self._segment_size
        if within * 2 < self._segment_size or self._asked == start or self._ready == start:
            return -1
        self._asked = start
        return start

    def segment_ready(self, start: i64, done: bool) -> None:
        """Record that the file at `start` exists with its blocks, or that its creation failed: then it is created when
        needed."""
        if done and start >= self._segments.end_of_files:
            self._ready = start

    def first_blocks(self) -> i64:
        """Return how many bytes of a new file ahead of use get blocks."""
        return min(RESERVE_STEP, self._segment_size)

    def next_blocks(self, end: i64) -> Extent | None:
        """Return the range of the current file that should get blocks now. Each is returned once."""
        if end <= self._step_at:
            return None
        at: i64 = max(self._reserved, end)
        file_end = end - end % self._segment_size + self._segment_size
        size: i64 = min(self._step, file_end - at)
        path = self._segments.path_at(at)
        if size <= 0 or path == "":
            self._step_at = file_end
            return None
        self._step = min(2 * self._step, RESERVE_STEP)
        self._reserve_to(at + size)
        return Extent(path, at % self._segment_size, size)

    def blocks_refused(self, end: i64) -> None:
        """Record that a range could not be allocated: the writer detects a full disk if it gets there."""
        self._step = RESERVE_FIRST
        self._reserved = end
        self._step_at = end + RESERVE_FIRST

    def _reserve_to(self, end: i64) -> None:
        self._reserved = end
        # At the end of a file there is no next stretch: the next file has its own first one.
        self._step_at = end if end % self._segment_size == 0 else end - self._step // 2
