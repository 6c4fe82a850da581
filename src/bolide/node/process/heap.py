"""What the C library does with memory that a server process frees."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from typing import Final

KEPT: Final = 32 * 1024 * 1024
"""Freed bytes at the end of the heap above which they go back to the system."""
MAPPED: Final = 16 * 1024 * 1024
"""Bytes from which an allocation is a map of its own, which goes back at once."""
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3


def keep_freed_memory(environ: Mapping[str, str] = os.environ) -> bool:
    """Keep up to `KEPT` bytes for the next answers; False where the C library has no such choice.

    glibc gives freed memory back early, and the kernel clears each page of it before it gives it out: for answers of a
    megabyte that was half of the time of a pull. An operator's own choice in the environment stays as it is.
    """
    if sys.platform != "linux":
        return False
    choose = getattr(ctypes.CDLL(None), "mallopt", None)
    if choose is None:
        return False
    for name, option, size in (("mmap_threshold", _MMAP_THRESHOLD, MAPPED), ("trim_threshold", _TRIM_THRESHOLD, KEPT)):
        if not _chosen(name, environ) and choose(option, size) != 1:
            return False
    return True


def _chosen(name: str, environ: Mapping[str, str]) -> bool:
    """True when the environment says what this setting of malloc is."""
    return f"MALLOC_{name.upper()}_" in environ or f"glibc.malloc.{name}=" in environ.get("GLIBC_TUNABLES", "")
