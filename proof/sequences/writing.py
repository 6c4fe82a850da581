"""The files of a store as a broker writes them, written with `struct` alone; `proof/reader` reads them."""

from __future__ import annotations

import struct
import zlib

from proof.reader.queues import UNIT, java_hash
from proof.reader.records import BORN_V6, STORE_V6, V1, V2, Record

_HEAD = struct.Struct(">iIIiiqqiq")


def record(row: Record, long_topic: bool = False, host: bytes = b"\x7f\0\0\1") -> bytes:
    """Return the bytes of a record; its `size` and `at` must be right."""
    topic, properties = row.topic.encode(), row.properties_text.encode()
    hosts = [b"\0" * 15 + b"\1" if row.sys_flag & flag else host for flag in (BORN_V6, STORE_V6)]
    parts = [
        _HEAD.pack(
            row.size, V2 if long_topic else V1, zlib.crc32(row.body) & 0x7FFFFFFF, row.queue_id, 0, row.queue_offset,
            row.at, row.sys_flag, row.stored_ms - 1,
        ),
        hosts[0], struct.pack(">iq", 5000, row.stored_ms), hosts[1], struct.pack(">iiq", 10911, 0, 0),
        struct.pack(">i", len(row.body)), row.body,
        struct.pack(">H" if long_topic else ">B", len(topic)), topic,
        struct.pack(">h", len(properties)), properties,
    ]  # fmt: skip
    return b"".join(parts)


def record_size(topic: str, body: bytes, properties: str, sys_flag: int, long_topic: bool = False) -> int:
    """Return the size of a record in bytes."""
    hosts = 12 * bool(sys_flag & BORN_V6) + 12 * bool(sys_flag & STORE_V6)
    return 91 + long_topic + hosts + len(topic.encode()) + len(body) + len(properties.encode())


def tags_code(row: Record) -> int:
    """Return the hash of the tags in the queue unit of a record."""
    return java_hash(row.properties.get("TAGS", ""))


def unit(row: Record) -> bytes:
    """Return the queue unit of a record."""
    return UNIT.pack(row.at, row.size, tags_code(row))


def checkpoint(flushed_ms: int, confirm: int, logics: int) -> bytes:
    """Return a checkpoint file: times of the log, the queues and the index; then offsets."""
    return struct.pack(">6q", flushed_ms, flushed_ms, flushed_ms, 0, confirm, logics).ljust(4096, b"\0")
