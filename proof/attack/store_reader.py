"""Reads a store folder as RocketMQ's format says (docs/protocol/store.md), with no code of Bolide.

The log is read from its first byte to its last, and the queue files beside it: each unit must point to the record of
that queue and offset, and each record must have its unit.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from proof.ledger import Content, Place, Queue, QueueView, Served

MAGIC: Final = 0xDAA320A7
MAGIC_LONG_TOPIC: Final = 0xDAA320AB
BLANK: Final = 0xCBD43194
FIXED: Final = struct.Struct(">iIIiiqqi")
COMPRESSED: Final = 0x1
PREPARED: Final = 0x4
ROLLED_BACK: Final = 0xC
BORN_IPV6: Final = 0x10
STORED_IPV6: Final = 0x20
UNIT: Final = struct.Struct(">qiq")
FILLED: Final = 0x7FFFFFFF
"""Size in the units before the first real one of a queue."""
USERS_PROPERTY: Final = "n"


@dataclass(frozen=True, slots=True)
class Logged:
    """One record of the log."""

    physical: int
    size: int
    topic: str
    queue: int
    offset: int
    flag: int
    stored_ms: int
    body: bytes
    properties: dict[str, str]

    @property
    def content(self) -> Content:
        """What its sender sent."""
        properties = tuple((name, value) for name, value in self.properties.items() if name == USERS_PROPERTY)
        topic = self.properties.get("RETRY_TOPIC", self.topic) if self.topic.startswith("%") else self.topic
        return Content(topic, self.body, self.properties.get("TAGS", ""), self.properties.get("KEYS", ""), properties)

    @property
    def queued(self) -> bool:
        """Whether it has a unit in a queue: half messages that are marked so, and ends, have none."""
        return self.flag & ROLLED_BACK not in (PREPARED, ROLLED_BACK)


@dataclass
class Found:
    """What a store holds."""

    records: list[Logged] = field(default_factory=list)
    queues: dict[Queue, QueueView] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    """What no reader may find, in words."""


def read_store(folder: Path, broker: str, deleted: set[str]) -> Found:
    """Read everything. Records of `deleted` topics may have no unit."""
    found = Found()
    try:
        found.records.extend(read_log(folder / "commitlog"))
    except ValueError as error:
        found.wrong.append(f"{broker}: {error}")
    by_place = {(one.topic, one.queue, one.offset, one.physical): one for one in found.records}
    in_queue: set[int] = set()
    for path in sorted((folder / "consumequeue").glob("*/*")):
        queue = Queue(broker, path.parent.name, int(path.name))
        view = found.queues[queue] = QueueView(-1, 0)
        for offset, physical, size in read_queue(path):
            record = by_place.get((queue.topic, queue.number, offset, physical))
            view.first = offset if view.first < 0 else view.first
            view.end = offset + 1
            if record is None or record.size != size:
                found.wrong.append(f"{queue}+{offset} names {size} bytes at {physical}, where its record is not")
                continue
            in_queue.add(physical)
            view.messages.append(Served(Place(queue, offset), record.content, physical))
        view.first = max(view.first, 0)
    for one in found.records:
        if one.queued and one.physical not in in_queue and one.topic not in deleted:
            place = f"{one.topic}@{broker}:{one.queue}+{one.offset}"
            found.wrong.append(f"the record at {one.physical} of {place} is in no queue: {one.body[:40]!r}")
    return found


def read_log(folder: Path) -> Iterator[Logged]:
    """Every record. Raises `ValueError` for other bytes, except zeros at the end."""
    files = sorted(path for path in folder.iterdir() if path.name.isdigit())
    expected = int(files[0].name) if files else 0
    for number, path in enumerate(files):
        data = path.read_bytes()
        start = int(path.name)
        if start != expected:
            raise ValueError(f"the log continues in {path.name}, and {expected:020} is missing")
        expected = start + len(data)
        at = 0
        while at + 8 <= len(data):
            size, magic = struct.unpack_from(">iI", data, at)
            if magic == BLANK:
                break
            if size == 0 and not any(data[at : at + 4096]):
                if any(name for name in files[number + 1 :] if any(name.read_bytes()[:4096])):
                    raise ValueError(f"the log ends at {start + at}, and goes on in a later file")
                return
            yield record_at(data, at, start)
            at += size


def record_at(data: bytes, at: int, start: int) -> Logged:
    """The record there. Raises `ValueError` if it is none."""
    where = f"the log holds no record at {start + at}"
    size, magic, crc, queue, _, offset, physical, flag = FIXED.unpack_from(data, at)
    if magic not in (MAGIC, MAGIC_LONG_TOPIC) or not 91 <= size <= len(data) - at:
        raise ValueError(f"{where}: size {size}, magic {magic:#x}")
    if physical != start + at:
        raise ValueError(f"{where}: it says that it is at {physical}")
    next_at = at + FIXED.size + 8 + (20 if flag & BORN_IPV6 else 8)
    stored_ms: int = struct.unpack_from(">q", data, next_at)[0]
    next_at += 8 + (20 if flag & STORED_IPV6 else 8) + 4 + 8
    length = struct.unpack_from(">i", data, next_at)[0]
    body = data[next_at + 4 : next_at + 4 + length]
    if zlib.crc32(body) & 0x7FFFFFFF != crc:
        raise ValueError(f"{where}: its body has another checksum")
    next_at += 4 + length
    if magic == MAGIC:
        length, next_at = data[next_at], next_at + 1
    else:
        length, next_at = struct.unpack_from(">H", data, next_at)[0], next_at + 2
    topic = data[next_at : next_at + length].decode()
    next_at += length
    length = struct.unpack_from(">h", data, next_at)[0]
    text = data[next_at + 2 : next_at + 2 + length].decode()
    if next_at + 2 + length != at + size:
        raise ValueError(f"{where}: its parts end at {start + next_at + 2 + length}")
    properties = dict(pair.split("\x01", 1) for pair in text.split("\x02") if pair)
    if flag & COMPRESSED:
        body = zlib.decompress(body)
    return Logged(physical, size, topic, queue, offset, flag, stored_ms, body, properties)


def read_queue(folder: Path) -> Iterator[tuple[int, int, int]]:
    """Offset, physical offset and size of each unit, up to the first empty one."""
    for path in sorted(one for one in folder.iterdir() if one.name.isdigit()):
        data = path.read_bytes()
        first = int(path.name) // UNIT.size
        for index in range(len(data) // UNIT.size):
            physical, size, _ = UNIT.unpack_from(data, index * UNIT.size)
            if size == 0 and physical == 0:
                return
            if size != FILLED:
                yield first + index, physical, size


def read_topics(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Read and write queues and permission of each topic."""
    table = _table(folder / "config" / "topics.json").get("topicConfigTable", {})
    return {name: (one["readQueueNums"], one["writeQueueNums"], one["perm"]) for name, one in table.items()}


def read_groups(folder: Path) -> dict[str, int]:
    """How often each group has a message tried again."""
    table = _table(folder / "config" / "subscriptionGroup.json").get("subscriptionGroupTable", {})
    return {name: one["retryMaxTimes"] for name, one in table.items()}


def read_offsets(folder: Path, broker: str) -> dict[tuple[str, Queue], int]:
    """The offset of each group in each queue."""
    found: dict[tuple[str, Queue], int] = defaultdict(int)
    for name, offsets in _table(folder / "config" / "consumerOffset.json").get("offsetTable", {}).items():
        topic, _, group = name.partition("@")
        for queue, offset in offsets.items():
            found[group, Queue(broker, topic, int(queue))] = offset
    return dict(found)


def read_keys(path: Path) -> dict[tuple[str, str], str]:
    """A name server's keys, by namespace and key."""
    if not path.exists():
        return {}
    table = _table(path)["configTable"]
    return {(space, key): value for space, keys in table.items() for key, value in keys.items()}


def _table(path: Path) -> dict[str, Any]:
    """A table's file; keys that are numbers may stand without quotes."""
    if not path.exists():
        return {}
    text = re.sub(r"([{,]\s*)(-?\d+)(\s*:)", r'\1"\2"\3', path.read_text("utf-8"))
    loaded: dict[str, Any] = json.loads(text)
    return loaded
