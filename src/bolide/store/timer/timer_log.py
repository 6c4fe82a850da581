"""The stream `timerlog/`: consecutive units in files of a fixed size, RocketMQ's TimerLog.

It is derived from the queue of the timer topic: units lost in a crash are appended again. The checkpoint contains
`end`; bytes after it are ignored.
"""

from __future__ import annotations

from typing import Final

from bolide.layout.timer import (
    BLANK_SIZE,
    NOWHERE,
    UNIT_SIZE,
    Unit,
    decode_unit,
    encode_blank,
    is_blank,
    last_unit_at,
)
from bolide.store.disk.files import Files
from bolide.store.disk.handles import HandleCache
from bolide.store.disk.segments import SegmentList

BLOCK_SIZE: Final = UNIT_SIZE * 1260
"""Number of bytes read at a time, because the units of one slot are close to each other."""
ZEROS: Final = bytes(1 << 20)


class TimerLog:
    """The timer log of one store. Positions are offsets of the stream."""

    def __init__(self, files: Files, root: str, segment_size: int, handles: HandleCache) -> None:
        self.segments = SegmentList(files, root + "/timerlog", segment_size, handles)
        self.end = 0
        self._block_at = NOWHERE
        self._block = b""

    def load(self) -> None:
        """List the files. Deletes the first file with a wrong size or position, and all later files."""
        self.segments.load(derived=True)

    # -- writing --

    def room(self, at: int) -> int:
        """Return the bytes left in the file after a position."""
        size = int(self.segments.segment_size)
        return size - at % size

    def write(self, units: list[bytes], at: int) -> int:
        """Write units at `at` and return the new end. The caller must set `end` to it.

        Raises `FileFailed`. Then `end` is unchanged, and the next write overwrites the same bytes.
        """
        first, parts = at, list[bytes]()
        for unit in units:
            left = self.room(at)
            if left < UNIT_SIZE + BLANK_SIZE:
                self._write(first, [*parts, encode_blank(left)])
                at += left
                first, parts = at, []
            parts.append(unit)
            at += UNIT_SIZE
        self._write(first, parts)
        return at

    def next_position(self, at: int) -> int:
        """Return the position of a unit written at `at`: either `at` or the start of the next file."""
        left = self.room(at)
        return at if left >= UNIT_SIZE + BLANK_SIZE else at + left

    def _write(self, at: int, parts: list[bytes]) -> None:
        if parts:
            self._block_at = NOWHERE
            self.segments.write(at, parts)

    def cut(self, end: int) -> None:
        """Truncate the stream to `end`: delete later files and zero the bytes after the end.

        After a crash before the zeros are on disk, Bolide's next start uses the checkpoint and truncates again. Java's
        broker would accept complete units and deliver their messages twice, as after a crash of its own.
        """
        self.end = end
        self._block_at = NOWHERE
        within = end % int(self.segments.segment_size)
        self.segments.truncate_to(end if within == 0 else end - within + int(self.segments.segment_size))
        at = end
        while (at := int(self.segments.next_data(at))) >= 0:
            left = self.room(at)
            self.segments.write(at, [ZEROS[: min(left, len(ZEROS))]])
            if left <= len(ZEROS):
                break
            at += len(ZEROS)

    def delete_before(self, physical_offset: int) -> None:
        """Delete the oldest files if all their units refer to records that are no longer in the commit log."""
        size = int(self.segments.segment_size)
        while len(self.segments.segment_starts()) > 1:
            start = int(self.segments.min_offset)
            unit = self.unit(start + last_unit_at(size))
            if unit is None or unit.physical_offset >= physical_offset:
                return
            if not self.segments.delete_before(start + size, 1):
                return

    def reset(self) -> None:
        """Delete all files."""
        self._block_at = NOWHERE
        self.segments.truncate_to(0)
        self.end = 0

    # -- reading --

    @property
    def begin(self) -> int:
        """Offset at which the oldest file starts."""
        return int(self.segments.min_offset)

    def unit(self, at: int) -> Unit | None:
        """Return the unit at a position, or None if there is no unit before the end."""
        return self.unit_before(at, self.end)

    def unit_before(self, at: int, end: int) -> Unit | None:
        """Like `unit`, with another end of the stream, because recovery also reads units after the synced end."""
        if at < self.begin or at + UNIT_SIZE > end:
            return None
        start = at - at % int(self.segments.segment_size)
        start = at - (at - start) % BLOCK_SIZE
        if start != self._block_at or at + UNIT_SIZE > start + len(self._block):
            self._block = self.segments.read(start, min(BLOCK_SIZE, self.room(start), end - start))
            self._block_at = start
        return decode_unit(self._block, at - start)

    def units_from(self, at: int, end: int) -> list[tuple[int, Unit]]:
        """Return (position, unit) of consecutive whole units within one file, starting at a position."""
        found: list[tuple[int, Unit]] = []
        stop = min(end, at + self.room(at))
        while (unit := self.unit_before(at, stop)) is not None:
            found.append((at, unit))
            at += UNIT_SIZE
        return found

    def goes_on(self, at: int, end: int) -> int:
        """Return the start of the next file if a blank is at `at`, or NOWHERE if the stream ends at `at`."""
        left = self.room(at)
        following = at + left
        if following >= end:
            return NOWHERE
        return following if left < BLANK_SIZE or is_blank(self.segments.read(at, BLANK_SIZE), 0) else NOWHERE
