"""The files of a store as RocketMQ describes them, read with `struct` and nothing of Bolide's.

`read` gives the bytes of a path, `names` the names in a folder; both see the disk as the next boot will.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Read = Callable[[str], bytes | None]
Names = Callable[[str], list[str]]
BLANK = 0xCBD43194
MAGIC = 0xDAA320A7
_NUMBER_AS_KEY = re.compile(r"([{,]\s*)(\d+)\s*:")
HEAD = struct.Struct(">iIIiiqqiq8sq8siq")


@dataclass(frozen=True)
class Record:
    """A record of the log."""

    at: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    sys_flag: int
    stored_at: int
    prepared: int
    body: bytes
    properties: bytes

    @property
    def in_queue(self) -> bool:
        return self.sys_flag & 0xC in (0, 8)

    def pairs(self) -> dict[str, str]:
        """The properties, by name."""
        text = self.properties.decode("utf-8", "replace")
        return dict(pair.split("\x01", 1) for pair in text.split("\x02") if "\x01" in pair)


def record_at(data: bytes, place: int, at: int) -> Record | None:
    """The record at this place of a file, which is at `at` of the log; None where no good one is."""
    if len(data) - place < 91:
        return None
    total, magic, crc, queue_id, _, queue_offset, own, sys_flag, _, _, stored_at, _, _, prepared = HEAD.unpack_from(
        data, place
    )
    if magic != MAGIC or own != at or not 91 <= total <= len(data) - place or sys_flag & 0x30:
        return None
    (length,) = struct.unpack_from(">i", data, place + 84)
    body_at = place + 88
    if not 0 <= length <= total - 91:
        return None
    body = data[body_at : body_at + length]
    topic_at = body_at + length
    topic = data[topic_at + 1 : topic_at + 1 + data[topic_at]]
    (more,) = struct.unpack_from(">h", data, topic_at + 1 + len(topic))
    if 91 + length + len(topic) + more != total or (length and zlib.crc32(body) & 0x7FFFFFFF != crc):
        return None
    properties = data[place + total - more : place + total]
    return Record(
        at,
        total,
        topic.decode("utf-8", "replace"),
        queue_id,
        queue_offset,
        sys_flag,
        stored_at,
        prepared,
        body,
        properties,
    )


def segments(read: Read, names: Names, folder: str) -> list[tuple[int, bytes]]:
    """Start and bytes of every file of a stream, oldest first."""
    found = [(int(name), read(f"{folder}/{name}") or b"") for name in sorted(names(folder)) if name.isdigit()]
    return [(start, data) for start, data in found if data]


def read_log(read: Read, names: Names, root: str) -> tuple[list[Record], int, int]:
    """All records, where the log begins, and where it ends."""
    files = segments(read, names, root + "/commitlog")
    records: list[Record] = []
    end = files[0][0] if files else 0
    for start, data in files:
        if start != end:
            break
        place = 0
        while (record := record_at(data, place, start + place)) is not None:
            records.append(record)
            place += record.size
        end = start + place
        if len(data) - place >= 8 and struct.unpack_from(">I", data, place + 4)[0] == BLANK:
            end = start + len(data)
    return records, files[0][0] if files else 0, end


def read_queue(read: Read, names: Names, root: str, topic: str, queue_id: str) -> dict[int, tuple[int, int, int]]:
    """Units of a queue by their number: (offset in the log, size, tags code)."""
    units: dict[int, tuple[int, int, int]] = {}
    for start, data in segments(read, names, f"{root}/consumequeue/{topic}/{queue_id}"):
        for place in range(0, len(data) - 19, 20):
            unit = struct.unpack_from(">qiq", data, place)
            if unit[1] == 0:
                return units
            if unit[1] != 0x7FFFFFFF:
                units[(start + place) // 20] = unit
    return units


def read_index(read: Read, names: Names, root: str, slots: int) -> list[tuple[int, int]]:
    """(hash, offset in the log) of every entry that is found through its slot."""
    found: list[tuple[int, int]] = []
    for name in sorted(names(root + "/index")):
        data = read(f"{root}/index/{name}") or b""
        if not name.isdigit() or len(data) < 40:
            continue
        (count,) = struct.unpack_from(">i", data, 36)
        for slot in range(slots):
            (number,) = struct.unpack_from(">i", data, 40 + slot * 4)
            seen = 0
            while 0 < number <= count and seen <= count:
                hashed, at, _, before = struct.unpack_from(">iqii", data, 40 + slots * 4 + number * 20)
                found.append((hashed, at))
                number, seen = (before if before < number else 0), seen + 1
    return found


def java_hash(text: str) -> int:
    """String.hashCode of ASCII text."""
    value = 0
    for char in text:
        value = (31 * value + ord(char)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def key_hash(topic: str, key: str) -> int:
    """How the index writes a key."""
    hashed = abs(java_hash(f"{topic}#{key}"))
    return 0 if hashed == 1 << 31 else hashed


def read_json(read: Read, path: str) -> Any:
    """A table, or its older copy where it cannot be read; None when there is none."""
    for name in (path, path + ".bak"):
        data = read(name)
        if data is not None:
            try:
                return json.loads(_keyed(data))
            except ValueError:
                continue
    return None


def _keyed(data: bytes) -> str:
    """JSON as Java writes it has numbers for keys."""
    return _NUMBER_AS_KEY.sub(r'\1"\2":', data.decode())
