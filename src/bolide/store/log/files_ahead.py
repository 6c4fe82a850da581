"""Files of the log that exist, and blocks that are reserved, before the writer gets there: AllocateMappedFileService.

Blocks are reserved well ahead of the writer, so that a full disk shows there and not at a message; and in steps, so
that a store with three messages does not take a gigabyte. The pool does the work; here is what it is to do.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from bolide.store.disk.segments import RESERVE_FIRST, Extent, SegmentList

RESERVE_STEP: Final = 64 * 1024 * 1024
"""Most bytes that are reserved ahead at once; steps begin with `RESERVE_FIRST` and double."""


@final
class FilesAhead:
    """The files ahead of one log. Offsets are physical offsets; `end` is where the log ends."""

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
        """The log ends here, and nothing is known of what lies ahead."""
        self._reserved = self._step_at = end
        self._ready = self._asked = -1

    def enter(self, start: i64) -> None:
        """The log continues in the file that begins here. Raises `DiskFull` or `FileFailed`."""
        if self._ready == start:
            self._segments.adopt(start)
            self._ready = -1
            self._reserve_to(start + self.first_blocks())
        else:
            # The pool was late, or was never asked: a few ms on the loop. If it works on the same file, both do the
            # same, and neither changes a byte.
            self._segments.create_at(start)
            self._reserve_to(start + min(RESERVE_FIRST, self._segment_size))

    def next_segment(self, end: i64) -> i64:
        """The start of the file that should be made ahead now, -1 for none; asked for once each."""
        within = end % self._segment_size
        start = end - within + self._segment_size
        if within * 2 < self._segment_size or self._asked == start or self._ready == start:
            return -1
        self._asked = start
        return start

    def segment_ready(self, start: i64, done: bool) -> None:
        """The file that begins at `start` exists with its blocks; or could not be made: then it is when needed."""
        if done and start >= self._segments.end_of_files:
            self._ready = start

    def first_blocks(self) -> i64:
        """Bytes of a file made ahead that get real blocks with it."""
        return min(RESERVE_STEP, self._segment_size)

    def next_blocks(self, end: i64) -> Extent | None:
        """The stretch of the current file that should get real blocks now; each is returned once."""
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
        """A stretch could not be reserved: the writer finds the disk full itself if it gets there."""
        self._step = RESERVE_FIRST
        self._reserved = end
        self._step_at = end + RESERVE_FIRST

    def _reserve_to(self, end: i64) -> None:
        self._reserved = end
        # At the end of a file there is no next stretch: the next file has its own first one.
        self._step_at = end if end % self._segment_size == 0 else end - self._step // 2
