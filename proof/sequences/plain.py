"""The files of a store, written and read with `struct` alone. This is the judge: it shares no code with Bolide.

A log is a chain of records, file after file; a file is named by the offset of its first byte. `parse` is the plain
reader of one record, `records` of a whole log. `record`, `unit` and `checkpoint` write what a broker writes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

V1, V2 = 0xDAA320A7, 0xDAA320AB
BLANK = 0xCBD43194
COMPRESSED, PREPARED, COMMITTED, ROLLED_BACK = 1, 4, 8, 12
BORN_V6, STORE_V6 = 16, 32
_HEAD = struct.Struct(">iIiiiqqiq")
UNIT = struct.Struct(">qiq")


@dataclass(frozen=True)
class Row:
    """A record of a log, as it is stored."""

    at: int
    """Its physical offset."""
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    sys_flag: int
    stored_ms: int
    body: bytes
    properties: str

    @property
    def tags(self) -> str | None:
        """Its tags."""
        return dict(pair.split("\1", 1) for pair in self.properties.split("\2") if "\1" in pair).get("TAGS")

    @property
    def queued(self) -> bool:
        """Whether it enters a queue: prepared and rolled back records do not."""
        return self.sys_flag & ROLLED_BACK not in (PREPARED, ROLLED_BACK)

    @property
    def plain_body(self) -> bytes | None:
        """The body as it was sent; None if it cannot be decompressed. Only zlib is written here."""
        if not self.sys_flag & COMPRESSED:
            return self.body
        if self.sys_flag & 0x700 not in (0, 0x300):
            return None
        try:
            return zlib.decompress(self.body)
        except zlib.error:
            return None


def parse(data: bytes, at: int, base: int) -> Row | None:
    """The record at byte `at` of a file whose first byte has offset `base`; None if these bytes are not one."""
    if at < 0 or at + 88 > len(data):
        return None
    size, magic, _, queue_id, _, queue_offset, own, sys_flag, _ = _HEAD.unpack_from(data, at)
    if magic not in (V1, V2) or own != base + at or size < 88 or at + size > len(data):
        return None
    stored = at + 48 + (20 if sys_flag & BORN_V6 else 8)
    length = stored + 8 + (20 if sys_flag & STORE_V6 else 8) + 12
    end = at + size
    try:
        (stored_ms,), (body_size,) = struct.unpack_from(">q", data, stored), struct.unpack_from(">i", data, length)
        topic = length + 4 + body_size
        if body_size < 0 or topic > end:
            return None
        wide = 2 if magic == V2 else 1
        topic_size = int.from_bytes(data[topic : topic + wide], "big")
        properties = topic + wide + topic_size
        (properties_size,) = struct.unpack_from(">h", data, properties)
    except struct.error:
        return None
    if properties_size < 0 or properties + 2 + properties_size != end:
        return None
    name = data[topic + wide : properties].decode("utf-8", "replace")
    text = data[properties + 2 : end].decode("utf-8", "replace")
    body = data[length + 4 : topic]
    return Row(base + at, size, name, queue_id, queue_offset, sys_flag, stored_ms, body, text)


def segments(folder: Path) -> list[tuple[int, bytes]]:
    """The files of a log or a queue: the offset of the first byte, and the bytes."""
    paths = sorted(path for path in folder.glob("[0-9]*") if len(path.name) == 20)
    return [(int(path.name), path.read_bytes()) for path in paths]


def records(folder: Path) -> Iterator[Row]:
    """Every record of a log that nothing has damaged, in order."""
    for base, data in segments(folder):
        at = 0
        while (row := parse(data, at, base)) is not None:
            yield row
            at += row.size


def record(row: Row, long_topic: bool = False, host: bytes = b"\x7f\0\0\1") -> bytes:
    """The bytes of a record; its `size` and `at` must be right."""
    topic, properties = row.topic.encode(), row.properties.encode()
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
    """Bytes of a record."""
    hosts = 12 * bool(sys_flag & BORN_V6) + 12 * bool(sys_flag & STORE_V6)
    return 91 + long_topic + hosts + len(topic.encode()) + len(body) + len(properties.encode())


def tags_code(tags: str | None) -> int:
    """Java's hash of the tags, as a queue unit holds it."""
    if not tags:
        return 0
    code = 0
    for character in tags:
        code = (31 * code + ord(character)) & 0xFFFFFFFF
    return code - (1 << 32) if code >= 1 << 31 else code


def unit(row: Row) -> bytes:
    """The queue unit of a record."""
    return UNIT.pack(row.at, row.size, tags_code(row.tags))


def units(folder: Path) -> list[tuple[int, int, int, int]]:
    """The units of a queue: queue offset, physical offset, size, hash of the tags."""
    found = []
    for base, data in segments(folder):
        for number in range(len(data) // 20):
            at, size, code = UNIT.unpack_from(data, number * 20)
            if 0 < size < 0x7FFFFFFF:
                found.append((base // 20 + number, at, size, code))
    return found


def checkpoint(flushed_ms: int, confirm: int, logics: int) -> bytes:
    """A checkpoint file: times of the log, the queues and the index; then offsets."""
    return struct.pack(">6q", flushed_ms, flushed_ms, flushed_ms, 0, confirm, logics).ljust(4096, b"\0")
