"""Marks: fingerprints of the last message that a stream read from each queue, to detect recreated queues.

The offsets of a recreated topic start at 0, so an offset alone does not identify the queue. For the message before each
offset, the checkpoint therefore contains a digest of its position in the CommitLog and its store time, which together
identify a message. `last_read` requests it from brokers.
"""

from __future__ import annotations

import struct
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple, TypeAlias

from bolide.spark.source.queues import Offsets, Queue, nested

LAST: Final = "last"

Mark: TypeAlias = int
"""A 32-bit digest that distinguishes a message from all earlier and later messages at its offset in a queue."""
Marks: TypeAlias = dict[Queue, Mark]
"""Marks of the messages before an offset, by queue."""


class MessagesBefore(NamedTuple):
    """The messages of brokers before the given offsets."""

    marks: Marks
    ends: Offsets
    """Ends of the queues that end before their offset."""


def changed(read: Mapping[Queue, int], marks: Marks, found: MessagesBefore) -> dict[Queue, str]:
    """Return the queues that were recreated since they were read up to `read`, each with the observed difference."""
    other: dict[Queue, str] = {}
    for queue in sorted(read):
        mark, now = marks.get(queue), found.marks.get(queue)
        if queue in found.ends:
            other[queue] = f"ends at {found.ends[queue]} now"
        elif mark is not None and now is not None and mark != now:
            other[queue] = f"has another message at offset {read[queue] - 1} now"
    return other


def mark_of(physical_offset: int, stored_ms: int) -> Mark:
    """Return the mark of a message. The probability that two messages have equal marks is 2^-32."""
    return zlib.crc32(struct.pack(">qq", physical_offset, stored_ms))


def marks_to_json(marks: Marks) -> dict[str, dict[str, str]]:
    """Return compressed base64 texts of queue ids and marks by topic and broker, about 6 bytes per queue."""
    found: dict[str, dict[str, str]] = {}
    for topic, brokers in nested(marks).items():
        for broker, queues in brokers.items():
            ids = sorted(map(int, queues))
            steps = [after - before for before, after in pairwise([0, *ids])]
            numbers = struct.pack(f">{2 * len(ids)}I", *steps, *(queues[str(queue_id)] for queue_id in ids))
            found.setdefault(topic, {})[broker] = b64encode(zlib.compress(numbers, 9)).decode()
    return found


def marks_of(offset: Mapping[str, Any]) -> Marks:
    """Return the marks in a stream's offset, empty if it was written without them.

    Earlier versions wrote [physical offset, store time in ms] by topic, broker and queue.
    """
    found: Marks = {}
    for topic, brokers in offset.get(LAST, {}).items():
        for broker, queues in brokers.items():
            if isinstance(queues, dict):
                found |= {Queue(topic, broker, int(queue_id)): mark_of(*pair) for queue_id, pair in queues.items()}
                continue
            data = zlib.decompress(b64decode(queues))
            numbers = struct.unpack(f">{len(data) // 4}I", data)
            half = len(numbers) // 2
            ids = accumulate(numbers[:half])
            found |= {Queue(topic, broker, at): mark for at, mark in zip(ids, numbers[half:], strict=True)}
    return found
