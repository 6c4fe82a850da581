"""Index files: a header of 40 bytes, int32 hash slots, entries of 20 bytes. RocketMQ's IndexFile and IndexHeader.

Entries are numbered from 1. A slot contains the number of the newest entry of its chain, and each entry contains the
number of the previous entry. Times of entries are seconds since the header's `begin_timestamp`.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from bolide.layout.errors import LayoutError

HEADER_SIZE: Final = 40
SLOT_SIZE: Final = 4
ENTRY_SIZE: Final = 20
_INT_MAX: Final = 0x7FFFFFFF


@final
class IndexHeader:
    """The first 40 bytes. Timestamps are store times in ms; `index_count` is one more than the number of entries."""

    def __init__(
        self,
        begin_timestamp: i64 = 0,
        end_timestamp: i64 = 0,
        begin_physical_offset: i64 = 0,
        end_physical_offset: i64 = 0,
        slot_count: i64 = 0,
        index_count: i64 = 1,
    ) -> None:
        self.begin_timestamp: i64 = begin_timestamp
        self.end_timestamp: i64 = end_timestamp
        self.begin_physical_offset: i64 = begin_physical_offset
        self.end_physical_offset: i64 = end_physical_offset
        self.slot_count: i64 = slot_count
        self.index_count: i64 = index_count

    def encode(self) -> bytes:
        """Return the 40 bytes of the header."""
        w = BytesWriter()
        write_i64_be(w, self.begin_timestamp)
        write_i64_be(w, self.end_timestamp)
        write_i64_be(w, self.begin_physical_offset)
        write_i64_be(w, self.end_physical_offset)
        write_i32_be(w, i32(self.slot_count))
        write_i32_be(w, i32(self.index_count))
        return w.getvalue()


@final
class IndexEntry:
    """One entry: key hash, physical offset, seconds since `begin_timestamp`, previous entry of the chain."""

    def __init__(self, key_hash: i64, physical_offset: i64, seconds: i64, previous: i64) -> None:
        self.key_hash: i64 = key_hash
        self.physical_offset: i64 = physical_offset
        self.seconds: i64 = seconds
        self.previous: i64 = previous


def decode_index_header(buf: bytes) -> IndexHeader:
    """Return the header of an index file. An index count below 1 is read as 1, as in Java. Raises LayoutError."""
    if len(buf) < HEADER_SIZE:
        raise LayoutError(f"an index file starts with {HEADER_SIZE} bytes of header, got {len(buf)}")
    count: i64 = i64(read_i32_be(buf, 36))
    if count <= 0:
        count = 1
    return IndexHeader(
        read_i64_be(buf, 0),
        read_i64_be(buf, 8),
        read_i64_be(buf, 16),
        read_i64_be(buf, 24),
        i64(read_i32_be(buf, 32)),
        count,
    )


def index_file_size(slots: i64, entries: i64) -> int:
    """Return the size in bytes of an index file with this number of slots and entry numbers."""
    return HEADER_SIZE + slots * SLOT_SIZE + entries * ENTRY_SIZE


def slot_position(slot: i64) -> int:
    """Return the position of a slot in the file, in bytes."""
    return HEADER_SIZE + slot * SLOT_SIZE


def entry_position(slots: i64, number: i64) -> int:
    """Return the position of an entry in the file, in bytes."""
    return HEADER_SIZE + slots * SLOT_SIZE + number * ENTRY_SIZE


def entry_seconds(begin_timestamp: i64, store_timestamp: i64) -> int:
    """Return the time field of an entry: whole seconds since the begin time (0 without one), never negative."""
    if begin_timestamp <= 0 or store_timestamp <= begin_timestamp:
        return 0
    seconds: i64 = (store_timestamp - begin_timestamp) // 1000
    return seconds if seconds < _INT_MAX else _INT_MAX


def write_entry(w: BytesWriter, key_hash: i64, physical_offset: i64, seconds: i64, previous: i64) -> None:
    """Append one entry."""
    write_i32_be(w, i32(key_hash))
    write_i64_be(w, physical_offset)
    write_i32_be(w, i32(seconds))
    write_i32_be(w, i32(previous))


def read_entry(buf: bytes, at: i64) -> IndexEntry:
    """Return the entry at byte `at` of `buf`. Raises IndexError if `buf` is too short."""
    return IndexEntry(
        i64(read_i32_be(buf, at)),
        read_i64_be(buf, at + 4),
        i64(read_i32_be(buf, at + 12)),
        i64(read_i32_be(buf, at + 16)),
    )
