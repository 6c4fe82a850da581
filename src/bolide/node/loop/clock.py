"""The clock of one node: `now` never jumps, whatever happens to the wall clock; `offset` is what turns it into a label.

`now` is the wall clock as it was when the node started, plus the time that has passed since. All deadlines are in it.
Where somebody sets the wall clock, `offset` (wall clock less `now`) follows, but only once the new time has lasted for
`CONFIRM_MS`: a clock that is wrong for a moment leaves no trace in the store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from bolide.world.clocks import now_ms, steady_ms

LOOK_MS: Final = 1_000
"""How often the two clocks are compared."""
CONFIRM_MS: Final = 30_000
TOLERANCE_MS: Final = 50
"""Two clocks that differ by no more than this agree: reading them takes time as well."""


@final
class Clock:
    """`wall` and `steady` give milliseconds; without `steady` it is the machine's clock that nobody can set."""

    def __init__(self, wall: Callable[[], int] = now_ms, steady: Callable[[], int] | None = None) -> None:
        self._wall: Callable[[], int] = wall
        self._steady: Callable[[], int] | None = steady
        self._base: int = wall() - (steady_ms() if steady is None else steady())
        self.offset: int = 0
        """Add it to `now` to label something with the time of the wall clock."""
        self._seen: int = 0
        self._since: int = -1
        self._next_look: int = 0

    def now(self) -> int:
        """Milliseconds since the epoch, as the wall clock of the start would count them."""
        steady = self._steady
        if steady is None:
            return self._base + steady_ms()  # a native call where this is compiled: it is made several times a turn
        return self._base + steady()

    def moved(self, now: int) -> bool:
        """True when the wall clock was set for good and `offset` has changed. Call it once a turn."""
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
