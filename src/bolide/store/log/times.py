"""Converts the steady time that never jumps into the wall clock's, which labels records, and back.

The whole store uses `now`, which is steady. A record's store time is `wall(now)`. When the wall clock was set while the
broker ran, `steady` converts a time in a record with the offset that was valid when it was stored. For records from
before the start only the wall clock of the start is known.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64


@final
class StoreTimes:
    """Of one store, since its start."""

    def __init__(self) -> None:
        self.offset: i64 = 0
        """The wall clock less the steady time."""
        self._steps: list[tuple[int, int]] = []
        """(end of the log when the offset changed, the offset until then), oldest first."""

    def step(self, offset: i64, end: i64) -> None:
        """The wall clock was set: what is stored from the end of the log on is labelled with the new offset."""
        self._steps.append((int(end), int(self.offset)))
        self.offset = offset

    def wall(self, now: i64) -> i64:
        """The wall time of a steady time."""
        return now + self.offset

    def steady(self, wall: i64, physical_offset: i64 = -1) -> i64:
        """The steady time of a wall time, as the clock was set when the record at this offset of the log was stored;
        without one, as it is set now."""
        if physical_offset >= 0:
            for end, offset in self._steps:
                if physical_offset < end:
                    return wall - offset
        return wall - self.offset
