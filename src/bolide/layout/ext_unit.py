"""Extension units: data that does not fit into queue units, mainly filter bitmaps. RocketMQ's ConsumeQueueExt.

``int16 size, int64 tags code, int64 store time ms, int16 bitmap bytes, bitmap``. A file reserves 4 bytes at its end. If
the next unit does not fit, ``int16 -1`` ends the file. The tags code of a queue unit with an extension unit contains
the address of that unit: offset + Long.MIN.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i16_be, read_i64_be, write_i16_be, write_i64_be
from mypy_extensions import i16, i64

from bolide.layout.errors import LayoutError
from bolide.layout.limits import MAX_EXT_UNIT_SIZE

MIN_UNIT_SIZE: Final = 20
END_BLANK_SIZE: Final = 4
END_OF_FILE: Final = b"\xff\xff"
MAX_ADDRESS: Final = -2147483649
_LONG_MIN: Final = -9223372036854775808
_MAX_REAL_OFFSET: Final = 9223372034707292159
"""MAX_ADDRESS - Long.MIN. An offset above it has no address."""


@final
class ExtUnit:
    """One decoded unit. `size` includes its own two bytes."""

    def __init__(self, size: i64, tags_code: i64, store_timestamp: i64, bitmap: bytes) -> None:
        self.size: i64 = size
        self.tags_code: i64 = tags_code
        self.store_timestamp: i64 = store_timestamp
        self.bitmap: bytes = bitmap


def is_ext_address(tags_code: i64) -> bool:
    """Whether the tags code of a queue unit is the address of an extension unit."""
    return tags_code <= MAX_ADDRESS


def ext_address(offset: i64) -> int:
    """Return the address of the unit at this byte of the extension stream. An address is returned unchanged."""
    return offset if offset <= MAX_ADDRESS else offset + _LONG_MIN


def ext_offset(address: i64) -> int:
    """Return the byte of the extension stream to which an address points. An offset is returned unchanged."""
    return address - _LONG_MIN if address <= MAX_ADDRESS else address


def ext_unit_size(bitmap: bytes) -> int:
    """Return the size of a unit with this bitmap, in bytes."""
    return MIN_UNIT_SIZE + len(bitmap)


def fits(offset: i64, size: i64, segment_size: i64) -> bool:
    """Return whether a unit of `size` bytes at this offset of the stream leaves the file's reserved bytes free."""
    return offset % segment_size + size + END_BLANK_SIZE <= segment_size


def has_address(offset: i64, size: i64) -> bool:
    """Return whether a unit of this size at this offset can have an address. If not, Java stores the tags code."""
    return size <= MAX_EXT_UNIT_SIZE and offset + size <= _MAX_REAL_OFFSET


def write_ext_unit(w: BytesWriter, tags_code: i64, store_timestamp: i64, bitmap: bytes) -> None:
    """Append one unit."""
    size: i64 = len(bitmap)
    write_i16_be(w, i16(MIN_UNIT_SIZE + size))
    write_i64_be(w, tags_code)
    write_i64_be(w, store_timestamp)
    write_i16_be(w, i16(size))
    if size:
        w.write(bitmap)


def read_ext_size(buf: bytes, at: i64) -> int:
    """Return the size field at `at`: > 0 for a unit, -1 at the file's end, 0 if unwritten or beyond `buf`."""
    if at + 2 > len(buf):
        return 0
    return i64(read_i16_be(buf, at))


def read_ext_unit(buf: bytes, at: i64) -> ExtUnit:
    """Return the unit at byte `at`. Raises LayoutError if no complete unit is there."""
    size: i64 = read_ext_size(buf, at)
    if size < MIN_UNIT_SIZE or at + size > len(buf):
        raise LayoutError(f"no extension unit at byte {at} (size field {size}): rebuild the queue's extension files")
    bitmap_size: i64 = i64(read_i16_be(buf, at + 18))
    if bitmap_size < 0 or MIN_UNIT_SIZE + bitmap_size != size:
        raise LayoutError(f"extension unit at byte {at} has size {size} but a bitmap of {bitmap_size} bytes")
    return ExtUnit(size, read_i64_be(buf, at + 2), read_i64_be(buf, at + 10), buf[at + 20 : at + size])
