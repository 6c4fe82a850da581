"""Compares the files of a store that is not in use: each unit points to its record, and each record has its unit."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from proof.ledger import Content, Place, Queue, QueueView, Served
from proof.reader.log import files_of, read_log
from proof.reader.queues import read_units
from proof.reader.records import Record
from proof.reader.tables import read_json

USERS_PROPERTY: Final = "n"


@dataclass
class Found:
    """The messages of a store."""

    queues: dict[Queue, QueueView] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    """Sentences about damage and contradictions."""


def content_of(record: Record) -> Content:
    """Return the parts of a record that its sender chose."""
    properties = record.properties
    own = tuple((name, value) for name, value in properties.items() if name == USERS_PROPERTY)
    topic = properties.get("RETRY_TOPIC", record.topic) if record.topic.startswith("%") else record.topic
    return Content(topic, record.sent_body or b"", properties.get("TAGS", ""), properties.get("KEYS", ""), own)


def read_store(folder: Path, broker: str, deleted: set[str]) -> Found:
    """Read everything. Records of `deleted` topics may have no unit."""
    log = read_log(files_of(folder / "commitlog"))
    found = Found(wrong=[f"{broker}: {log.fault}"] if log.fault else [])
    by_place = {(one.topic, one.queue_id, one.queue_offset, one.at): one for one in log.records}
    in_queue: set[int] = set()
    for path in sorted((folder / "consumequeue").glob("*/*")):
        queue = Queue(broker, path.parent.name, int(path.name))
        view = found.queues[queue] = QueueView(-1, 0)
        for offset, physical, size, _ in read_units(files_of(path)):
            record = by_place.get((queue.topic, queue.number, offset, physical))
            view.first = offset if view.first < 0 else view.first
            view.end = offset + 1
            if record is None or record.size != size:
                found.wrong.append(f"{queue}+{offset} names {size} bytes at {physical}, where its record is not")
                continue
            in_queue.add(physical)
            view.messages.append(Served(Place(queue, offset), content_of(record), physical))
        view.first = max(view.first, 0)
    for one in log.records:
        if one.queued and one.at not in in_queue and one.topic not in deleted:
            place = f"{one.topic}@{broker}:{one.queue_id}+{one.queue_offset}"
            found.wrong.append(f"the record at {one.at} of {place} is in no queue: {one.body[:40]!r}")
    return found


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
    table = _table(path).get("configTable", {})
    return {(space, key): value for space, keys in table.items() for key, value in keys.items()}


def _table(path: Path) -> dict[str, Any]:
    loaded: Any = read_json(path.read_bytes()) if path.exists() else {}
    return dict(loaded)
