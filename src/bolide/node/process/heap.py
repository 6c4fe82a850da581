"""What the C library does with memory that a server process frees."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

KEPT: Final = 32 * 1024 * 1024
"""Freed bytes at the end of the heap above which they go back to the system."""
MAPPED: Final = 16 * 1024 * 1024
"""Bytes from which an allocation is a map of its own, which goes back at once."""
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3


def keep_freed_memory() -> bool:
    """Keep up to `KEPT` bytes for the next answers; False where the C library has no such choice.

    glibc gives freed memory back early, and the kernel clears each page of it before it gives it out: for answers of a
    megabyte that was half of the time of a pull.
    """
    if sys.platform != "linux":
        return False
    choose = getattr(ctypes.CDLL(None), "mallopt", None)
    if choose is None:
        return False
    taken = (choose(_MMAP_THRESHOLD, MAPPED), choose(_TRIM_THRESHOLD, KEPT))
    return taken == (1, 1)
