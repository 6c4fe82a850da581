"""Converts the store's steady time, which never jumps, to the wall clock time of record timestamps, and back.

`now` is a steady time. A record's store time is `wall(now)`. If the wall clock was changed while the broker ran,
`steady` converts a record's time with the offset that was valid when it was stored. For records from before the start,
only the offset at the start is known.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64


@final
class StoreTimes:
    """Times of one store since its start."""

    def __init__(self) -> None:
        self.offset: i64 = 0
        """Wall clock minus steady time."""
        self._steps: list[tuple[int, int]] = []
        """Changes of the offset, oldest first: the end of the log at the time, and the previous offset."""

    def step(self, offset: i64, end: i64) -> None:
        """Set a new offset for records stored from the end of the log on, because the wall clock was changed."""
        self._steps.append((int(end), int(self.offset)))
        self.offset = offset

    def wall(self, now: i64) -> i64:
        """Return the wall time of a steady time."""
        return now + self.offset

    def steady(self, wall: i64, physical_offset: i64 = -1) -> i64:
        """Return the steady time of a wall time, using the offset at the record at `physical_offset`; -1: the current
        offset."""
        if physical_offset >= 0:
            for end, offset in self._steps:
                if physical_offset < end:
                    return wall - offset
        return wall - self.offset
