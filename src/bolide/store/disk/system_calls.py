"""System calls that Python lacks or implements slowly. Each function returns None if its call is not supported."""

from __future__ import annotations

import ctypes
import functools
import platform
import re
import sys
from collections.abc import Callable


@functools.cache
def syncfs_call() -> Callable[[int], int] | None:
    """Return Linux's syncfs. Before 5.8 it did not report write errors, so it is not used there."""
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    if sys.platform != "linux" or release is None or (int(release[1]), int(release[2])) < (5, 8):
        return None
    found: Callable[[int], int] | None = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    return found


@functools.cache
def fallocate_call() -> Callable[[int, int, int, int], int] | None:
    """Return Linux's fallocate, which the C library does not emulate, or None on other systems."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    found = getattr(library, "fallocate64", None) or getattr(library, "fallocate", None)
    if found is None:
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    called: Callable[[int, int, int, int], int] = found
    return called


@functools.cache
def map_calls() -> tuple[Callable[[int, int, int, int, int, int], int | None], Callable[[int, int, int], int]] | None:
    """Return Linux's mmap, to map a file at a given address, and mincore. None on other systems, whose mincore does not
    support files."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    try:
        mapped = getattr(library, "mmap64", None) or library.mmap
        resident = library.mincore
    except AttributeError:
        return None
    mapped.restype = ctypes.c_void_p
    mapped.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_int64)
    resident.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    return mapped, resident


@functools.cache
def read_nowait_call() -> Callable[[int, int, int, int], bytes | None] | None:
    """Return `page_kernel.read_nowait`, which does not wait for the disk, or None if it is unavailable."""
    try:
        from bolide.store.disk.page_kernel import READS_NOWAIT, read_nowait
    except ImportError:
        return None
    return read_nowait if READS_NOWAIT else None


@functools.cache
def is_resident_call() -> Callable[[int, int, int, int, int], bool] | None:
    """Return `page_kernel.is_resident`, which checks whether pages are in memory, or None if it is unavailable."""
    try:
        from bolide.store.disk.page_kernel import TELLS_PAGES, is_resident
    except ImportError:
        return None
    return is_resident if TELLS_PAGES else None
