"""Marks: what identifies the last message that a stream read from a queue, to detect a queue that was created again.

A topic that is deleted and created again counts its offsets from 0, so an offset alone does not identify the queue.
The checkpoint therefore contains, for the message before each offset, a digest of its position in the CommitLog and its
store time; together they identify a message. `last_read` requests it from brokers.
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
"""A digest of 32 bits that distinguishes a message from every other that was ever at its offset in a queue."""
Marks: TypeAlias = dict[Queue, Mark]
"""By queue, the message before an offset."""


class MessagesBefore(NamedTuple):
    """What a broker has before the given offsets."""

    marks: Marks
    ends: Offsets
    """The ends of the queues that end before their offset."""


def changed(read: Mapping[Queue, int], marks: Marks, found: MessagesBefore) -> dict[Queue, str]:
    """The queues that no longer are those read up to the offsets `read`, each with what was found."""
    other: dict[Queue, str] = {}
    for queue in sorted(read):
        mark, now = marks.get(queue), found.marks.get(queue)
        if queue in found.ends:
            other[queue] = f"ends at {found.ends[queue]} now"
        elif mark is not None and now is not None and mark != now:
            other[queue] = f"has another message at offset {read[queue] - 1} now"
    return other


def mark_of(physical_offset: int, stored_ms: int) -> Mark:
    """Return the mark of a message. Two messages have the same mark by chance in one of 2^32 cases."""
    return zlib.crc32(struct.pack(">qq", physical_offset, stored_ms))


def marks_to_json(marks: Marks) -> dict[str, dict[str, str]]:
    """The text form by topic and broker, about 6 bytes per queue: queue ids and marks, compressed, in base64."""
    found: dict[str, dict[str, str]] = {}
    for topic, brokers in nested(marks).items():
        for broker, queues in brokers.items():
            ids = sorted(map(int, queues))
            steps = [after - before for before, after in pairwise([0, *ids])]
            numbers = struct.pack(f">{2 * len(ids)}I", *steps, *(queues[str(queue_id)] for queue_id in ids))
            found.setdefault(topic, {})[broker] = b64encode(zlib.compress(numbers, 9)).decode()
    return found


def marks_of(offset: Mapping[str, Any]) -> Marks:
    """The marks in a stream's offset; none if it was written without them.

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
