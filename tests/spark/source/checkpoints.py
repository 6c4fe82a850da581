"""Offsets and batches of a stream as Spark keeps and reads them."""

from __future__ import annotations

import json
import pickle
from typing import Any

from bolide.client import Message
from bolide.spark.source.stream import RocketMQStreamReader
from bolide.spark.source.tasks import RangePartition
from bolide.testing.broker import Broker
from tests.spark.produce import send
from tests.spark.target import Target


def stored(offset: dict[str, Any]) -> dict[str, Any]:
    """An offset as it comes back from a checkpoint."""
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


def rows(reader: RocketMQStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, int]]:
    """(queue, offset) of every row of a batch, read as executors do."""
    found = []
    for planned in reader.partitions(stored(start), stored(end)):
        task = pickle.loads(pickle.dumps(planned))
        assert isinstance(task, RangePartition)
        for batch in pickle.loads(pickle.dumps(reader)).read(task):
            found += [(task.part.queue.queue_id, offset) for offset in batch.column(0).to_pylist()]
    return sorted(found)


def produce(target: Target | Broker, topic: str, count: int) -> None:
    messages = [Message(topic, b"m%d" % number) for number in range(count)]
    if isinstance(target, Target):
        target.send(messages)
    else:
        send(target.namesrv_addr, messages)
