"""The host's clocks. Compiled by mypyc, so that other compiled modules read them with a native call."""

from __future__ import annotations

import time
from typing import Final

_BOOT: Final[int] = getattr(time, "CLOCK_BOOTTIME", -1)
"""Id of the monotonic clock that also advances while the host is suspended, or -1 if the platform has none."""


def now_ms() -> int:
    """Return the wall clock time in ms since the epoch, for timestamps outside a running node."""
    return int(time.time() * 1000)


def steady_ms() -> int:
    """Return the time of a monotonic clock in ms. It also advances while the host is suspended, if supported."""
    if _BOOT >= 0:
        return time.clock_gettime_ns(_BOOT) // 1_000_000
    return time.monotonic_ns() // 1_000_000
