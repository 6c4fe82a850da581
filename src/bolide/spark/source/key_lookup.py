"""Option `keys` of a batch read: finds the messages by the brokers' key indexes instead of reading whole queues.

An index returns 64 messages at most without saying whether there are more, and it may be switched off. If the answer
may be incomplete, nothing is planned here and the queues are read; every row is checked again in either case.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.datasource import InputPartition

from bolide.layout.columns import RecordColumns, chain_starts
from bolide.remoting import codes
from bolide.remoting.command import make_request
from bolide.remoting.headers.query import QueryMessageRequestHeader
from bolide.spark.errors import ClusterUnavailable
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.patient_requests import signed
from bolide.spark.source.queues import Offsets, Queue
from bolide.spark.source.ranges import Range, within
from bolide.spark.source.source_options import SourceOptions
from bolide.spark.source.tasks import PointsPartition

MOST: Final = 64
"""Messages that a Java broker returns at most (maxMsgsNumBatch)."""
TAIL: Final = 64
"""Offsets at the end of a queue that are read anyway: a Java broker delivers a message before it indexes it."""
FOREVER: Final = (1 << 53) - 1


def ranges_of_keys(
    cluster: Cluster, options: SourceOptions, begin: Offsets, end: Offsets
) -> list[InputPartition] | None:
    """One task per broker for the messages between two offsets with one of the keys; None if a scan is needed."""
    by_broker: dict[str, set[str]] = {}
    for queue in begin:
        by_broker.setdefault(queue.broker, set()).add(queue.topic)
    low, high = options.filters.offset_from, options.filters.offset_to
    begin, end = within(begin, low, high), within(end, low, high)
    tasks: list[InputPartition] = []
    for broker, topics in sorted(by_broker.items()):
        found = _places(cluster, options, broker, sorted(topics))
        if found is None:
            return None
        tails = {queue: max(begin[queue], end[queue] - TAIL) for queue in begin if queue.broker == broker}
        points = [Range(q, at, at + 1) for q, at in sorted(found) if q in tails and begin[q] <= at < tails[q]]
        points += [Range(queue, tail, end[queue]) for queue, tail in sorted(tails.items()) if tail < end[queue]]
        if points:
            tasks.append(PointsPartition(tuple(points), cluster.members(broker)))
    return tasks


def _places(cluster: Cluster, options: SourceOptions, broker: str, topics: list[str]) -> set[tuple[Queue, int]] | None:
    """Queue and offset of the messages in the index of a broker; None if the index may be incomplete."""
    if not _has_index(cluster, options, broker):
        return None
    asked = [(topic, key) for topic in topics for key in options.filters.keys]
    commands = []
    for topic, key in asked:
        header = QueryMessageRequestHeader(topic=topic, key=key, max_num=MOST, begin_timestamp=0, end_timestamp=FOREVER)
        commands.append(signed(make_request(codes.QUERY_MESSAGE, 0, header.to_ext()), options))
    found: set[tuple[Queue, int]] = set()
    for (topic, _), answer in zip(asked, cluster.ask(broker, commands), strict=True):
        if answer.code == codes.QUERY_NOT_FOUND:
            continue
        records = RecordColumns(answer.body, chain_starts(answer.body))
        if answer.code != codes.SUCCESS or len(records) >= MOST or not len(records):
            return None
        places = zip(
            records.topic.to_pylist(),
            records.numbers("queue_id").tolist(),
            records.numbers("queue_offset").tolist(),
            strict=True,
        )
        found.update((Queue(topic, broker, queue_id), offset) for name, queue_id, offset in places if name == topic)
    return found


def _has_index(cluster: Cluster, options: SourceOptions, broker: str) -> bool:
    """Whether the broker reports an index; one that refuses the request counts as having none."""
    try:
        answer = cluster.ask(broker, [signed(make_request(codes.GET_BROKER_CONFIG, 0, {}), options)])[0]
    except ClusterUnavailable:
        return False
    return answer.code == codes.SUCCESS and b"messageIndexEnable=true" in answer.body
