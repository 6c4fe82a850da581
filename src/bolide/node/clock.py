"""The one place of a node that reads the wall clock; services get the time as an argument."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return int(time.time() * 1000)
