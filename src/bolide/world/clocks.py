"""The machine's clocks. Compiled by mypyc, so that other compiled modules read them by a native call."""

from __future__ import annotations

import time
from typing import Final

_BOOT: Final[int] = getattr(time, "CLOCK_BOOTTIME", -1)
"""The monotonic clock that includes sleep of the machine, if available."""


def now_ms() -> int:
    """The wall clock: milliseconds since the epoch, for labels outside of a running node."""
    return int(time.time() * 1000)


def steady_ms() -> int:
    """Return the milliseconds of a clock that nobody can set."""
    if _BOOT >= 0:
        return time.clock_gettime_ns(_BOOT) // 1_000_000
    return time.monotonic_ns() // 1_000_000
