"""Controls how the C library handles freed memory of a server."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from typing import Final

KEPT: Final = 32 * 1024 * 1024
"""Free bytes at the end of the heap above which glibc returns them to the system."""
MAPPED: Final = 16 * 1024 * 1024
"""Size from which an allocation is a separate mapping, which is returned to the system immediately when freed."""
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3


def keep_freed_memory(environ: Mapping[str, str] = os.environ) -> bool:
    """Keep up to `KEPT` freed bytes for later responses. Return False if the C library has no such option.

    glibc returns freed memory early, and the kernel clears each page before it reassigns it: for responses of a
    megabyte, that was half of the time of a pull. Settings in the environment take precedence.
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
    """Return whether the environment specifies this malloc setting."""
    return f"MALLOC_{name.upper()}_" in environ or f"glibc.malloc.{name}=" in environ.get("GLIBC_TUNABLES", "")
