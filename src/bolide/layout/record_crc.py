"""The CRC of a whole record in its last 20 bytes, as the property ``__CRC32#``: enabledAppendPropCRC, 5.x.

It covers all bytes before it; the value has ten decimal digits, lowest first (RocketMQ's MessageDecoder.createCrc32 and
CommitLog.checkMessageAndReturnSize).
"""

from __future__ import annotations

import zlib
from typing import Final

from mypy_extensions import i64

CRC_SIZE: Final = 20
_HEAD: Final = b"__CRC32#\x01"
_HEAD_SIZE: Final = 9
_DIGITS: Final = 10


def crc_mark(covered: bytes) -> bytes:
    """Return the last 20 bytes of a record, given all bytes before them."""
    digits = str(zlib.crc32(covered) & 0x7FFFFFFF)[::-1].ljust(_DIGITS, "0")
    return b"%b%b\x02" % (_HEAD, digits.encode())


def crc_holds(buf: bytes, at: i64, size: i64) -> bool:
    """Return whether the record at `at` ends with the CRC of the bytes before it. A record without a CRC does not."""
    end: i64 = at + size
    start: i64 = end - CRC_SIZE
    if start < at or not buf.startswith(_HEAD, start):
        return False
    # The bytes after the name must equal the computed ones: any other bytes are a wrong CRC.
    return buf[start:end] == crc_mark(buf[at:start])


def without_crc(properties: bytes) -> bytes:
    """Return properties without the CRC of an earlier record of the same message."""
    if _HEAD not in properties:
        return properties
    return b"\x02".join([pair for pair in properties.split(b"\x02") if not pair.startswith(_HEAD)])
