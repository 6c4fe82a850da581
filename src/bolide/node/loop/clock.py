"""Clock of one node. `now` never jumps, even if the wall clock is changed; `offset` converts it to the wall clock.

`now` is the wall clock at the start of the node plus the time elapsed since. All deadlines use it. If the wall clock is
changed, `offset` (wall clock minus `now`) changes once the new time has lasted for `CONFIRM_MS`. So a clock that is
wrong for a short time does not affect the store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from bolide.world.clocks import now_ms, steady_ms

LOOK_MS: Final = 1_000
"""Interval at which the two clocks are compared."""
CONFIRM_MS: Final = 30_000
TOLERANCE_MS: Final = 50
"""Clocks that differ by no more than this are considered equal, because reading them takes time."""


@final
class Clock:
    """`wall` and `steady` return milliseconds. The default of `steady` is the monotonic clock of the host."""

    def __init__(self, wall: Callable[[], int] = now_ms, steady: Callable[[], int] | None = None) -> None:
        self._wall: Callable[[], int] = wall
        self._steady: Callable[[], int] | None = steady
        self._base: int = wall() - (steady_ms() if steady is None else steady())
        self.offset: int = 0
        """Wall clock minus `now`, in ms. Add it to `now` for timestamps."""
        self._seen: int = 0
        self._since: int = -1
        self._next_look: int = 0

    def now(self) -> int:
        """Return milliseconds since the epoch, as counted from the wall clock at the start."""
        steady = self._steady
        if steady is None:
            return self._base + steady_ms()  # a native call in compiled builds, made several times per turn
        return self._base + steady()

    def moved(self, now: int) -> bool:
        """Return whether the wall clock was permanently changed and `offset` is updated. Call once per turn."""
        if now < self._next_look:
            return False
        self._next_look = now + LOOK_MS
        seen = self._wall() - self.now()
        if abs(seen - self.offset) <= TOLERANCE_MS:
            self._since = -1
        elif self._since < 0 or abs(seen - self._seen) > TOLERANCE_MS:
            self._seen = seen
            self._since = now
        elif now - self._since >= CONFIRM_MS:
            self.offset = seen
            self._since = -1
            return True
        return False
