"""Creates log files and allocates blocks ahead of the writer (AllocateMappedFileService).

Blocks are allocated well ahead, so that a full disk is detected before a message needs the space. They are allocated in
steps, so that a store with three messages does not use a gigabyte. This module decides when; the pool does the work.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from bolide.store.disk.segments import RESERVE_FIRST, Extent, SegmentList

RESERVE_STEP: Final = 64 * 1024 * 1024
"""Maximum number of bytes allocated in one step. Steps start at `RESERVE_FIRST` and double."""


@final
class FilesAhead:
    """Plans the files and blocks ahead of one log. Offsets are physical offsets; `end` is the end of the log."""

    def __init__(self, segments: SegmentList) -> None:
        self._segments = segments
        self._segment_size: i64 = segments.segment_size
        self._ready: i64 = -1
        self._asked: i64 = -1
        self._step: i64 = RESERVE_FIRST
        self._reserved: i64 = 0
        """Offset up to which the current file has allocated blocks, or the pool is about to allocate them."""
        self._step_at: i64 = 0
        """End of the log above which the next blocks are allocated."""

    def start_at(self, end: i64) -> None:
        """Set the end of the log. Assumes that no files or blocks exist ahead of it."""
        self._reserved = self._step_at = end
        self._ready = self._asked = -1

    def enter(self, start: i64) -> None:
        """Continue the log in the file that starts here. Raises `DiskFull` or `FileFailed`."""
        if self._ready == start:
            self._segments.adopt(start)
            self._ready = -1
            self._reserve_to(start + self.first_blocks())
        else:
            # The pool was late or never started. This takes a few ms on the loop. If both create the file at the same
            # time, they do the same, and neither changes a byte.
            self._segments.create_at(start)
            self._reserve_to(start + min(RESERVE_FIRST, self._segment_size))

    def next_segment(self, end: i64) -> i64:
        """Return the start offset of the log file to create now, or -1. Each file is returned once."""
        within = end % self._segment_size
        start = end - within + self._segment_size
        if within * 2 < self._segment_size or self._asked == start or self._ready == start:
            return -1
        self._asked = start
        return start

    def segment_ready(self, start: i64, done: bool) -> None:
        """Record that the file at `start` exists with its blocks, or, if `done` is False, that its creation failed:
        `enter` then creates it."""
        if done and start >= self._segments.end_of_files:
            self._ready = start

    def first_blocks(self) -> i64:
        """Return the number of bytes at the start of a file created ahead of use that get blocks."""
        return min(RESERVE_STEP, self._segment_size)

    def next_blocks(self, end: i64) -> Extent | None:
        """Return the range of the current file that should get blocks now, or None. Each range is returned once."""
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
        """Record that a range could not be allocated. The writer detects a full disk when it gets there."""
        self._step = RESERVE_FIRST
        self._reserved = end
        self._step_at = end + RESERVE_FIRST

    def _reserve_to(self, end: i64) -> None:
        self._reserved = end
        # At the end of a file there is no next range: the next file gets its own first blocks.
        self._step_at = end if end % self._segment_size == 0 else end - self._step // 2
