"""Queue units of 20 bytes, one for each message of a queue: RocketMQ's ConsumeQueue.

``int64 physical offset, int32 record size, int64 tags code`` (or the address of an extension unit, see `ext_unit`).
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

UNIT_SIZE: Final = 20
PRE_BLANK_SIZE: Final = 0x7FFFFFFF
"""Record size in units that represent messages before the first of a queue."""
PRE_BLANK: Final = b"\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00"


def write_unit(w: BytesWriter, physical_offset: i64, size: i64, tags_code: i64) -> None:
    """Append one unit; `size` is the length of the record in bytes."""
    write_i64_be(w, physical_offset)
    write_i32_be(w, i32(size))
    write_i64_be(w, tags_code)


def read_unit(buf: bytes, at: i64) -> tuple[int, int, int]:
    """Return physical offset, record size and tags code of the unit at byte `at`.

    Raises IndexError if `buf` is too short.
    """
    return read_i64_be(buf, at), i64(read_i32_be(buf, at + 8)), read_i64_be(buf, at + 12)


def unit_is_valid(physical_offset: i64, size: i64) -> bool:
    """Return whether a unit is valid. Pre-blank units are valid; the zeros after the last unit of a file are not."""
    return physical_offset >= 0 and size > 0


def count_valid_units(buf: bytes) -> int:
    """Return the number of units before the first invalid one. An incomplete last unit is not counted."""
    n: i64 = len(buf) // UNIT_SIZE
    i: i64 = 0
    while i < n:
        if read_i64_be(buf, i * UNIT_SIZE) < 0 or read_i32_be(buf, i * UNIT_SIZE + 8) <= 0:
            break
        i += 1
    return i
