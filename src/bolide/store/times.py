"""What turns the time that never jumps into the wall clock's, which labels records, and back.

`now` is steady: all of the store counts in it. A record's store time is `wall(now)`. Where somebody set the wall clock
while the broker ran, `steady` says what a time in a record means: by the offset that held when it was stored. Of
records from before the start nothing is known but the wall clock of the start. Compiled by mypyc.
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
        """The wall clock was set: what is stored from the end of the log on is labelled by another offset."""
        self._steps.append((int(end), int(self.offset)))
        self.offset = offset

    def wall(self, now: i64) -> i64:
        """What the wall clock shows at a steady time."""
        return now + self.offset

    def steady(self, wall: i64, physical_offset: i64 = -1) -> i64:
        """The steady time of a wall time, as the clock was set when the record at this offset of the log was stored;
        without one, as it is set now."""
        if physical_offset >= 0:
            for end, offset in self._steps:
                if physical_offset < end:
                    return wall - offset
        return wall - self.offset
