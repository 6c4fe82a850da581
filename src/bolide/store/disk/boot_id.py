"""The id that the operating system assigns to each boot of the host."""

from __future__ import annotations

import ctypes
import functools
import sys


@functools.cache
def boot_id() -> str:
    """Return the id: a random number on Linux, a sysctl value on macOS, "" elsewhere."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return _mac_boot_id() if sys.platform == "darwin" else ""


def _mac_boot_id() -> str:
    text = ctypes.create_string_buffer(64)
    size = ctypes.c_size_t(64)
    failed = ctypes.CDLL(None).sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, 0)
    return "" if failed else text.value.decode("ascii", "replace")
