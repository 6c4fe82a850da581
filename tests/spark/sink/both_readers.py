"""The two ways from rows to messages, in a form that can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import pyarrow as pa

from bolide.layout.hashes import java_hash
from bolide.remoting.batch import BatchMessage, encode_batch
from bolide.spark.sink.elements import NO_TIME, ElementReader, readable
from bolide.spark.sink.messages import Outgoing, Refusal, RowOrigin, RowReader, Task

Sent: TypeAlias = dict[int, tuple[Any, ...]]
"""By the number of its row: all that is sent of a message, or the refusal."""


def by_reference(
    batch: pa.RecordBatch, topic: str, task: Task, *, immediate: bool = False, first: int = 0
) -> list[Outgoing | Refusal]:
    """Every row, one after the other."""
    rows = range(first, first + batch.num_rows)
    return list(RowReader(topic, task, immediate).read(RowOrigin(readable(batch), first), rows))


def as_sent(read: Iterable[Outgoing | Refusal]) -> Sent:
    """What is sent of these."""
    found: Sent = {}
    for each in read:
        if isinstance(each, Refusal):
            found[each.row] = (each.topic, each.reason, each.values)
            continue
        element = encode_batch([BatchMessage(each.flag, each.body, each.properties.encode())])
        number = -1 if each.queue_id is None else each.queue_id
        key = abs(java_hash(each.route_key)) if each.route_key else -1
        born = NO_TIME if each.born_timestamp is None else each.born_timestamp
        found[each.row] = (each.topic, element, number, key, each.alone, born)
    return found


def from_columns(batch: pa.RecordBatch, topic: str, task: Task, *, immediate: bool = False) -> Sent:
    """What is sent of the rows of a batch that is the first of its task."""
    return read_all(ElementReader(topic, task, immediate), batch)


def read_all(reader: ElementReader, batch: pa.RecordBatch) -> Sent:
    """What is sent of the rows of the next batch."""
    found: Sent = {}
    for each in reader.read(batch):
        if isinstance(each, Refusal):
            found[each.row] = (each.topic, each.reason, each.values)
            continue
        rows, ends, data = each.rows.tolist(), each.ends().tolist(), bytes(each.bytes())
        assert rows == sorted(rows), "messages of a topic are in the order of their rows"
        for place, row in enumerate(rows):
            assert row not in found
            found[row] = (
                each.topic,
                data[ends[place] : ends[place + 1]],
                -1 if each.numbers is None else int(each.numbers[place]),
                -1 if each.hashes is None else int(each.hashes[place]),
                each.alone is not None and bool(each.alone[place]),
                NO_TIME if each.born is None else int(each.born[place]),
            )
    return found
