"""The offsets of a stream, called as Spark calls them but without Spark, against a real broker.

Traps of PySpark 4.3 that would lose or repeat rows: the start of a first batch asked repeatedly, offsets compared
by their text, a commit that comes a batch late, polls every 10 ms, a process that forgets everything.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from bolide.spark.errors import DataLost, OptionError
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.queues import Offsets, Queue
from bolide.spark.source.source_options import read_options
from bolide.spark.source.stream import RocketMQStreamReader
from bolide.spark.spark_versions import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows
from bolide.testing.broker import Broker
from tests.client.patient_blocking import Admin
from tests.spark.source.checkpoints import produce, rows, stored
from tests.spark.target import Target

SCHEMA = StructType([StructField("queue_offset", LongType())])
ALL = ReadAllAvailable()
OPEN: list[RocketMQStreamReader] = []


def stream(target: Target | Broker, **more: object) -> RocketMQStreamReader:
    options = {"namesrv": target.namesrv_addr, "discoveryIntervalMs": "100"} | {n: str(v) for n, v in more.items()}
    OPEN.append(RocketMQStreamReader(read_options(options, streaming=True), SCHEMA))
    return OPEN[-1]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """No test leaves a connection behind."""
    yield
    while OPEN:
        OPEN.pop().stop()


def test_a_first_batch_that_is_replayed_starts_where_it_first_did(rocketmq: Target, topic: str) -> None:
    rocketmq.create_topic(topic, queues=2)
    produce(rocketmq, topic, 20)
    reader = stream(rocketmq, subscribe=topic)
    start = reader.initialOffset()
    produce(rocketmq, topic, 10)
    assert reader.initialOffset() == start, "asked a second time"
    end = reader.latestOffset(stored(start), ALL)
    first = rows(reader, start, end)
    assert len(first) == 10
    produce(rocketmq, topic, 5)
    again = stream(rocketmq, subscribe=topic)
    later = again.initialOffset()
    assert later != start
    assert rows(again, later, end) == first
    following = again.latestOffset(stored(end), ALL)
    assert len(rows(again, end, following)) == 5


def test_a_start_beyond_the_end_is_reported(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T", queues=1)
    produce(bolide_broker, "T", 5)
    given = {"subscribe": "T", "startingOffsets": '{"T": {"broker-a": {"0": 9}}}'}
    with pytest.raises(DataLost, match="T@broker-a:0 would start at offset 9, but it ends at 5: .* from its first"):
        stream(bolide_broker, **given).initialOffset()
    reader = stream(bolide_broker, failOnDataLoss=False, **given)
    start = reader.initialOffset()
    assert len(rows(reader, start, reader.latestOffset(start, ALL))) == 5


def test_a_checkpoint_of_another_source_is_reported(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T")
    reader = stream(bolide_broker, subscribe="T")
    kafka: dict[str, Any] = {"T": {"0": 5}}
    with pytest.raises(OptionError, match="the checkpoint contains offsets of another source"):
        reader.latestOffset(kafka, ALL)
    with pytest.raises(OptionError, match="the checkpoint contains offsets of another source"):
        reader.partitions(kafka, kafka)


def test_latest_offset_without_new_messages_is_the_same_object(rocketmq: Target, topic: str) -> None:
    rocketmq.create_topic(topic)
    produce(rocketmq, topic, 7)
    reader = stream(rocketmq, subscribe=topic, startingOffsets="earliest")
    start = reader.initialOffset()
    end = stored(reader.latestOffset(start, ALL))
    assert reader.latestOffset(end, ALL) is end
    assert json.dumps(reader.latestOffset(end, ALL)) == json.dumps(end)
    assert reader.reportLatestOffset() == {"queues": end["queues"]}


def test_an_idle_stream_does_not_flood_the_broker(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T")
    reader = stream(bolide_broker, subscribe="T")
    start = reader.initialOffset()
    reader.latestOffset(start, ALL)
    begin = time.monotonic()
    for _ in range(4):
        reader.latestOffset(start, ALL)
    assert time.monotonic() - begin >= 0.35


def test_limits_share_out_and_are_dropped_when_everything_is_wanted(rocketmq: Target, topic: str) -> None:
    rocketmq.create_topic(topic)
    produce(rocketmq, topic, 40)
    reader = stream(rocketmq, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=12)
    limit = reader.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    start = reader.initialOffset()
    end = reader.latestOffset(start, limit)
    assert len(rows(reader, start, end)) == 12
    assert len(rows(reader, start, reader.latestOffset(start, ALL))) == 40


def test_a_small_batch_waits_until_there_is_more_or_it_waited_long_enough(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T")
    more = {"subscribe": "T", "startingOffsets": "earliest", "minOffsetsPerTrigger": 10}
    reader = stream(bolide_broker, **more, maxTriggerDelay="1h")
    limit: ReadLimit = reader.getDefaultReadLimit()
    assert isinstance(limit, ReadMinRows)
    produce(bolide_broker, "T", 3)
    end = reader.latestOffset(reader.initialOffset(), limit)
    assert len(rows(reader, reader.initialOffset(), end)) == 3, "the first batch has waited for nothing"
    produce(bolide_broker, "T", 4)
    assert reader.latestOffset(end, limit) is end
    assert reader.latestOffset(end, ALL) != end
    produce(bolide_broker, "T", 6)
    assert len(rows(reader, end, reader.latestOffset(end, limit))) == 10
    hasty = stream(bolide_broker, **more, maxTriggerDelay="150ms")
    hasty.latestOffset(hasty.initialOffset(), limit)
    moved = hasty.latestOffset(stored(end), limit)
    while moved == end:
        moved = hasty.latestOffset(stored(end), limit)
    assert len(rows(hasty, end, moved)) == 10


def test_available_now_ends_where_it_began_looking(rocketmq: Target, topic: str) -> None:
    rocketmq.create_topic(topic)
    produce(rocketmq, topic, 10)
    limits = {"minOffsetsPerTrigger": 4, "maxOffsetsPerTrigger": 6}
    reader = stream(rocketmq, subscribe=topic, startingOffsets="earliest", **limits)
    reader.prepareForTriggerAvailableNow()
    limit = reader.getDefaultReadLimit()
    produce(rocketmq, topic, 5)
    start = stored(reader.initialOffset())
    sizes = []
    while (end := reader.latestOffset(start, limit)) is not start:
        sizes.append(len(rows(reader, start, end)))
        start = stored(end)
    assert sizes == [6, 4]


def test_queues_and_topics_that_come_up_are_read_from_their_first_message(rocketmq: Target, topic: str) -> None:
    rocketmq.create_topic(f"{topic}_a", queues=1)
    reader = stream(rocketmq, subscribePattern=f"{topic}_.*")
    start = reader.initialOffset()
    produce(rocketmq, f"{topic}_a", 2)
    rocketmq.create_topic(f"{topic}_b", queues=2)
    produce(rocketmq, f"{topic}_b", 6)
    found: list[tuple[int, int]] = []
    deadline = time.monotonic() + 120
    end = stored(start)
    while len(found) < 8 and time.monotonic() < deadline:
        begin, end = end, stored(reader.latestOffset(end, ALL))
        if end != begin:
            found += rows(stream(rocketmq, subscribePattern=f"{topic}_.*"), begin, end)
    assert len(found) == 8
    assert f"{topic}_b" in end["queues"]


def test_a_pattern_may_match_nothing_yet_but_a_name_may_not(rocketmq: Target, topic: str) -> None:
    reader = stream(rocketmq, subscribePattern=f"{topic}_none.*")
    start = reader.initialOffset()
    assert start["queues"] == {}
    assert reader.latestOffset(start, ALL) is start
    with pytest.raises(OptionError, match="has no route"):
        stream(rocketmq, subscribe=f"{topic}_none").initialOffset()


def test_the_group_shows_progress_as_soon_as_a_batch_is_done(rocketmq: Target, topic: str) -> None:
    rocketmq.create_topic(topic, queues=2)
    produce(rocketmq, topic, 10)
    group = f"g_{topic}"[:60]
    with Admin(rocketmq.namesrv_addr) as admin:
        admin.create_group(group)
    reader = stream(rocketmq, subscribe=topic, startingOffsets="earliest", group=group, commitOffsets="true")
    start = stored(reader.initialOffset())
    end = stored(reader.latestOffset(start, ALL))
    assert len(rows(reader, start, end)) == 10
    produce(rocketmq, topic, 3)
    reader.latestOffset(end, ALL)
    with Admin(rocketmq.namesrv_addr) as admin:
        progress = admin.consumer_progress(group, topic)
    assert progress.lag == 3
    from_group = stream(rocketmq, subscribe=topic, startingOffsets="group", group=group).initialOffset()
    assert from_group["queues"] == end["queues"]


def test_a_topic_made_anew_is_data_loss_or_a_new_beginning(rocketmq: Target, topic: str, tmp_path: Path) -> None:
    rocketmq.create_topic(topic, queues=1)
    produce(rocketmq, topic, 9)
    reader = stream(rocketmq, subscribe=topic, startingOffsets="earliest")
    end = stored(reader.latestOffset(reader.initialOffset(), ALL))
    with Admin(rocketmq.namesrv_addr) as admin:
        admin.delete_topic(topic)
    rocketmq.create_topic(topic, queues=1)
    produce(rocketmq, topic, 4)
    with pytest.raises(DataLost, match="was read up to offset 9 and ends at 4 now"):
        stream(rocketmq, subscribe=topic).latestOffset(end, ALL)
    tolerant = stream(rocketmq, subscribe=topic, failOnDataLoss="false")
    following = stored(tolerant.latestOffset(end, ALL))
    assert rows(tolerant, end, following) == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert tolerant.latestOffset(following, ALL) is following


class AskedOfAReplica(Cluster):
    """A cluster in which one queue is missing, and a replica that lags answers for the other."""

    def latest(self, queues: list[Queue]) -> Offsets:
        return {Queue("T", "broker-a", 0): 0}

    def master_answered(self, broker: str) -> bool:
        return False


def test_a_queue_that_is_not_there_for_a_moment_keeps_its_place(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T", queues=2)
    produce(bolide_broker, "T", 8)
    reader = stream(bolide_broker, subscribe="T", startingOffsets="earliest")
    end = stored(reader.latestOffset(reader.initialOffset(), ALL))
    options = read_options({"namesrv": bolide_broker.namesrv_addr, "subscribe": "T"}, streaming=True)
    OPEN.append(RocketMQStreamReader(options, SCHEMA, AskedOfAReplica))
    assert OPEN[-1].latestOffset(end, ALL) is end


class Query:
    """A query that keeps the checkpoint as Spark does and may die between any two of its steps."""

    def __init__(self, chance: random.Random, **options: object) -> None:
        self._chance = chance
        self._options = options
        self.planned: list[dict[str, Any]] = []
        """Ends of batches, as in `offsets/`."""
        self.committed: list[list[tuple[int, int]]] = []
        """Rows of batches whose sink has them for good, as in `commits/`."""

    def run(self, target: Broker, steps: int) -> None:
        """Start from the checkpoint, do some batches, and die."""
        reader = stream(target, **self._options)
        first = reader.initialOffset() if not self.planned or len(self.planned) == 1 > len(self.committed) else None
        for _ in range(steps):
            batch = len(self.committed)
            start = stored(self.planned[batch - 1] if batch else first or {})
            if batch == len(self.planned):
                end = reader.latestOffset(start, reader.getDefaultReadLimit())
                if end is start and batch:
                    continue
                self.planned.append(stored(end))
                if self._chance.random() < 0.3:
                    return
            found = rows(reader, start, self.planned[batch])
            if self._chance.random() < 0.3:
                return
            self.committed.append(found)


@pytest.mark.parametrize("seed", range(6))
def test_killed_query_neither_loses_nor_repeats_rows(bolide_broker: Broker, seed: int) -> None:
    chance = random.Random(seed)
    bolide_broker.create_topic("T", queues=1)
    produce(bolide_broker, "T", 3)
    starts = chance.choice(["earliest", "latest"])
    query = Query(chance, subscribe="T", startingOffsets=starts, maxOffsetsPerTrigger=chance.choice([1, 4, 50]))
    query.run(bolide_broker, 1)
    first = stored(query.planned[0])
    begin = first.get("from", first["queues"])["T"]["broker-a"]["0"]
    for number in range(6):
        if chance.random() < 0.3:
            bolide_broker.create_topic("T", queues=2 + number // 2)
        produce(bolide_broker, "T", chance.randint(0, 6))
        query.run(bolide_broker, chance.randint(1, 4))
    deadline = time.monotonic() + 120
    cluster = Cluster(read_options({"namesrv": bolide_broker.namesrv_addr, "subscribe": "T"}))
    wanted = sorted(
        (queue.queue_id, offset)
        for queue, end in cluster.latest(cluster.selected()).items()
        for offset in range(begin if queue.queue_id == 0 else 0, end)
    )
    cluster.close()
    found: list[tuple[int, int]] = []
    while len(found) < len(wanted) and time.monotonic() < deadline:
        query.run(bolide_broker, 30)
        found = sorted(row for batch in query.committed for row in batch)
    assert found == wanted
