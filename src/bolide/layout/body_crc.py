"""CRC-32 of bodies, with the processor's folding instruction if the kernel (`crc_kernel`) is built.

Otherwise zlib computes it: as fast as the zlib that Python uses, and with a copy of the body if it is part of a record.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final


def crc_by_zlib(data: bytes, begin: int, end: int) -> int:
    """Return the CRC-32 of `data[begin:end]`, without the sign bit: RocketMQ stores an int that is not negative."""
    return zlib.crc32(data if end - begin == len(data) else data[begin:end]) & 0x7FFFFFFF


def _built() -> Callable[[bytes, int, int], int]:
    try:
        from bolide.layout import crc_kernel
    except ImportError:
        return crc_by_zlib
    found: Callable[[bytes, int, int], int] = crc_kernel.body_crc
    return found


body_crc: Final = _built()
"""`crc_by_zlib`, or the same function of the kernel."""
