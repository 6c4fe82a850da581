"""Option `keys` of a batch read: finds messages by the brokers' key indexes instead of reading whole queues.

An index contains the messages that were stored while it was enabled, and may lack older ones. So it is used only for
messages stored since the broker started or last changed its settings; the rest of each queue is read. An index returns
64 messages at most and does not report whether there are more. If a response may be incomplete, the queues are read.
Rows are compared again in either case.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from pyspark.sql.datasource import InputPartition

from bolide.layout.columns import RecordColumns, chain_starts
from bolide.layout.property_names import KEYS
from bolide.remoting import codes
from bolide.remoting.command import make_request
from bolide.remoting.headers.query import QueryMessageRequestHeader
from bolide.remoting.properties_text import read_properties
from bolide.spark.errors import ClusterUnavailable
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.patient_requests import signed
from bolide.spark.source.queues import Offsets, Queue
from bolide.spark.source.ranges import Range, within
from bolide.spark.source.source_options import SourceOptions
from bolide.spark.source.tasks import RangesPartition, plan

MOST: Final = 64
"""Maximum number of messages that a Java broker returns (maxMsgsNumBatch)."""
TAIL: Final = 64
"""Number of offsets to always read at the end of a queue: a Java broker delivers a message before it indexes it."""
FOREVER: Final = (1 << 53) - 1
CLOCKS_MS: Final = 10_000
"""Margin in ms for the clocks of a set's brokers: a new master has messages with the former master's store times."""


def tasks_by_keys(
    cluster: Cluster, options: SourceOptions, begin: Offsets, end: Offsets
) -> list[InputPartition] | None:
    """Return the tasks for messages in a range with one of the keys, or None if all queues must be read.

    There is one task per broker for the messages that its index contains. Other messages are read as without `keys`.
    """
    low, high = options.filters.offset_from, options.filters.offset_to
    begin, end = within(begin, low, high), within(end, low, high)
    by_broker: dict[str, list[Queue]] = {}
    for queue in sorted(begin):
        by_broker.setdefault(queue.broker, []).append(queue)
    unindexed: Offsets = {}
    tasks: list[InputPartition] = []
    for broker, queues in sorted(by_broker.items()):
        index = _index_of(cluster, options, broker)
        if index is None:
            return None
        since = cluster.by_time(dict.fromkeys(queues, index.since_ms))
        tails = {queue: max(begin[queue], end[queue] - TAIL) for queue in queues}
        known = {queue: min(max(begin[queue], since[queue]), tails[queue]) for queue in queues}
        unindexed.update(known)
        points: list[Range] = []
        if any(known[queue] < tails[queue] for queue in queues):
            found = _places(cluster, options, broker, sorted({queue.topic for queue in queues}), index.most)
            if found is None:
                return None
            points = [Range(q, at, at + 1) for q, at in sorted(found) if q in tails and known[q] <= at < tails[q]]
        points += [Range(queue, tail, end[queue]) for queue, tail in tails.items() if tail < end[queue]]
        if points:
            tasks.append(RangesPartition(tuple(points), {broker: cluster.members(broker)}))
    return plan(begin, unindexed, cluster, options) + tasks


class _Index(NamedTuple):
    """The key index of a broker."""

    since_ms: int
    """The index contains all messages stored at this time or later."""
    most: int
    """Maximum number of entries that a query returns."""


def _index_of(cluster: Cluster, options: SourceOptions, broker: str) -> _Index | None:
    """Return the index of a master, or None if it is disabled or its settings cannot be read."""
    try:
        answer = cluster.ask(broker, [signed(make_request(codes.GET_BROKER_CONFIG, 0, {}), options)])[0]
        settings = read_properties(answer.body) if answer.code == codes.SUCCESS else {}
        changed = json.loads(answer.ext()["version"])["timestamp"]
        most = min(MOST, int(settings.get("maxMsgsNumBatch", MOST)))
    except (ClusterUnavailable, ValueError, KeyError, TypeError):
        return None
    if settings.get("messageIndexEnable") != "true" or not isinstance(changed, int):
        return None
    if "false" in (settings.get("indexFileWriteEnable"), settings.get("indexFileReadEnable")):
        return None
    return _Index(changed + CLOCKS_MS, most) if cluster.master_answered(broker) else None


def _places(
    cluster: Cluster, options: SourceOptions, broker: str, topics: list[str], most: int
) -> set[tuple[Queue, int]] | None:
    """Return queue and offset of the messages in the index of a broker, or None if a response may be incomplete."""
    asked = [(topic, key) for topic in topics for key in options.filters.keys]
    commands = []
    for topic, key in asked:
        header = QueryMessageRequestHeader(topic=topic, key=key, max_num=MOST, begin_timestamp=0, end_timestamp=FOREVER)
        commands.append(signed(make_request(codes.QUERY_MESSAGE, 0, header.to_ext()), options))
    found: set[tuple[Queue, int]] = set()
    answers = cluster.ask(broker, commands)
    if not cluster.master_answered(broker):
        return None
    for (topic, key), answer in zip(asked, answers, strict=True):
        if answer.code == codes.QUERY_NOT_FOUND:
            continue
        records = RecordColumns(answer.body, chain_starts(answer.body))
        if answer.code != codes.SUCCESS or not len(records) or _entries(records, key) >= most:
            return None
        places = zip(
            records.topic.to_pylist(),
            records.numbers("queue_id").tolist(),
            records.numbers("queue_offset").tolist(),
            strict=True,
        )
        found.update((Queue(topic, broker, queue_id), offset) for name, queue_id, offset in places if name == topic)
    return found


def _entries(records: RecordColumns, key: str) -> int:
    """Return the maximum number of index entries for these records: one per occurrence of the key in a message.

    A message without the key is in the result because one of its keys has the same hash.
    """
    count = 0
    for text, unique in zip(records.property_values(KEYS).to_pylist(), records.uniq_key.to_pylist(), strict=True):
        keys = [*(text or "").split(" "), unique]
        count += keys.count(key) or len(keys)
    return count
