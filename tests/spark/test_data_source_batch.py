"""Batch reads without Spark's JVM, planned and read as Spark does: positions, filters, compressed and lost messages."""

from __future__ import annotations

import asyncio
import json
import pickle
from typing import Any

import pytest

from bolide.client import Message, MessageQueue
from bolide.layout.columns import chain_starts
from bolide.spark.data_source import RocketMQReader
from bolide.spark.errors import DataLost, OptionError
from bolide.spark.source.bounds import begin_offsets
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.fetch import RangeReader
from bolide.spark.source.members import master_alone
from bolide.spark.source.queues import EARLIEST, Offsets, Queue
from bolide.spark.source.ranges import MANY, Range
from bolide.spark.source.rows import RowMaker
from bolide.spark.source.source_options import read_options
from bolide.testing.broker import Broker
from tests.client.patient import Producer
from tests.client.patient_blocking import Admin
from tests.spark.produce import send
from tests.spark.schemas import SCHEMA
from tests.spark.target import Target


def some(topic: str) -> list[Message]:
    return [
        Message(topic, b"body-%d" % n, tags="AB"[n % 2], keys=[f"k{n}", "all"], properties={"n": str(n)})
        for n in range(100)
    ]


class Loaded:
    """What one read planned, and its rows."""

    def __init__(self, target: Target, topic: str, **more: object) -> None:
        given = dict(target.options(topic, **more))
        if not topic:
            del given["subscribe"]
        reader = RocketMQReader(read_options(given), SCHEMA)
        self.tasks = reader.partitions()
        shipped = pickle.loads(pickle.dumps(reader))
        self.rows: list[dict[str, Any]] = []
        for task in self.tasks:
            for batch in shipped.read(pickle.loads(pickle.dumps(task))):
                self.rows += batch.to_pylist()

    @property
    def numbers(self) -> list[int]:
        """What bodies end with."""
        return sorted(int(row["body"].rpartition(b"-")[2]) for row in self.rows)

    @property
    def times(self) -> list[int]:
        """Store times in ms, sorted."""
        return sorted(round(row["store_timestamp"].timestamp() * 1000) for row in self.rows)


def test_compressed_bodies_are_inflated(rocketmq: Target, topic: str) -> None:
    rocketmq.create_topic(topic)
    bodies = {kind: kind.encode() * 2000 for kind in ("ZLIB", "LZ4", "ZSTD")}

    async def produce() -> None:
        for kind, body in bodies.items():
            settings = {"compress_above": 100, "compression": kind, "timeout": 60}
            async with Producer("spark-tests", rocketmq.namesrv_addr, **settings) as producer:
                await producer.send(Message(topic, body))

    asyncio.run(produce())
    rocketmq.send([Message(topic, b"last")])
    rows = Loaded(rocketmq, topic).rows
    assert sorted(row["body"] for row in rows) == sorted([*bodies.values(), b"last"])
    assert sum(row["sys_flag"] & 1 for row in rows) == 3


def test_filters_leave_out_what_was_not_asked_for(rocketmq: Target, topic: str) -> None:
    rocketmq.create_topic(topic)
    # "Aa" and "BB" have one hash, which is all that a broker compares.
    twins = [Message(topic, b"x-200", tags="Aa"), Message(topic, b"x-201", tags="BB")]
    results = rocketmq.send([*some(topic), *twins])
    evens = list(range(0, 100, 2))
    assert Loaded(rocketmq, topic, tags="A").numbers == evens
    assert len(Loaded(rocketmq, topic, tags="A || B").rows) == 100
    assert Loaded(rocketmq, topic, tags="BB").numbers == [201]
    assert len(Loaded(rocketmq, topic, tags="C").rows) == 0
    assert Loaded(rocketmq, topic, sql="n BETWEEN 10 AND 13").numbers == [10, 11, 12, 13]
    assert Loaded(rocketmq, topic, sql="n > 95", tags="B").numbers == [97, 99]
    by_key = Loaded(rocketmq, topic, keys="k5,k7,nobody")
    assert by_key.numbers == [5, 7]
    assert len(by_key.tasks) == 1, "found by the index"
    first = next(n for n, result in enumerate(results) if result.queue_offset == 0)
    assert Loaded(rocketmq, topic, keys=f"k{first},k99", offsetTo=1).numbers == [first]
    assert len(Loaded(rocketmq, topic, keys="all").rows) == 100, "more than an index answers with"
    queue = results[3].queue.queue_id
    placed = sorted((at.queue_offset, n) for n, at in enumerate(results[:100]) if at.queue.queue_id == queue)
    mine = [n for _, n in placed]  # Java's threads store messages of one connection in any order
    some_of_it = Loaded(rocketmq, topic, queueIds=queue, brokers=rocketmq.broker_name, offsetFrom=2, offsetTo=5)
    assert some_of_it.numbers == sorted(mine[2:5])
    times = Loaded(rocketmq, topic).times
    assert len(Loaded(rocketmq, topic, storedFrom=times[0], storedTo=times[-1] + 1).rows) == 102
    assert len(Loaded(rocketmq, topic, storedTo=times[0]).rows) == 0
    assert len(Loaded(rocketmq, topic, storedFrom=times[-1]).rows) == sum(t >= times[-1] for t in times)
    assert len(Loaded(rocketmq, topic, storedTo=times[50]).rows) == sum(t < times[50] for t in times)


def test_positions(rocketmq: Target, topic: str) -> None:
    rocketmq.create_topic(topic, queues=2)
    results = rocketmq.send(some(topic))
    broker = rocketmq.broker_name
    ends = {queue_id: sum(1 for r in results if r.queue.queue_id == queue_id) for queue_id in (0, 1)}
    assert len(Loaded(rocketmq, topic, startingOffsets="latest").rows) == 0
    offsets = json.dumps({topic: {broker: {"0": 5, "1": -2}}})
    assert len(Loaded(rocketmq, topic, startingOffsets=offsets).rows) == 95
    assert len(Loaded(rocketmq, topic, endingOffsets=offsets.replace("-2", "-1")).rows) == 5 + ends[1]
    assert len(Loaded(rocketmq, "", assign=json.dumps({topic: {broker: [1]}})).rows) == ends[1]
    group = f"g_{topic}"[:60]
    with Admin(rocketmq.namesrv_addr) as admin:
        admin.create_group(group)
        admin.set_group_offset(group, MessageQueue(topic, broker, 0), 3)
    # The other queue was never committed: a batch read then begins at its first message.
    assert len(Loaded(rocketmq, topic, startingOffsets="group", group=group).rows) == ends[0] - 3 + ends[1]
    last = Loaded(rocketmq, topic).times[-1]
    assert len(Loaded(rocketmq, topic, startingTimestamp=last + 60_000).rows) == 0
    assert len(Loaded(rocketmq, topic, startingTimestamp=0, endingTimestamp=last + 60_000).rows) == 100
    times = json.dumps({topic: {broker: {"0": last + 60_000}}})
    assert len(Loaded(rocketmq, topic, startingOffsetsByTimestamp=times).rows) == ends[1]
    assert len(Loaded(rocketmq, topic, startingOffsetsByTimestamp=json.dumps({topic: last + 60_000})).rows) == 0
    split = Loaded(rocketmq, topic, maxRecordsPerPartition=7)
    assert len(split.tasks) >= 15
    assert split.numbers == list(range(100))
    assert len(Loaded(rocketmq, topic, minPartitions=9).tasks) == 9


class Trimmed(Cluster):
    """A cluster whose brokers have deleted everything before offset 40."""

    def earliest(self, queues: list[Queue]) -> Offsets:
        return dict.fromkeys(queues, 40)


def test_a_start_that_was_deleted_is_said(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T", queues=1)
    send(bolide_broker.namesrv_addr, some("T"))
    queue = Queue("T", "broker-a", 0)

    def begin(**more: str) -> int:
        options = read_options({"namesrv": bolide_broker.namesrv_addr, "subscribe": "T", **more})
        cluster = Trimmed(options)
        try:
            return begin_offsets(cluster, options, EARLIEST)[queue]
        finally:
            cluster.close()

    start = json.dumps({"T": {"broker-a": {"0": 20}}})
    with pytest.raises(DataLost, match="would begin at offset 20, but the broker holds messages from 40 on"):
        begin(startingOffsets=start)
    assert begin(startingOffsets=start, failOnDataLoss="false") == 40
    assert begin() == 40, "the earliest there is"
    assert begin(startingOffsets="latest") == 100


def test_a_start_beyond_the_end_is_reported(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T", queues=1)
    send(bolide_broker.namesrv_addr, some("T"))

    def at(offset: int) -> str:
        return json.dumps({"T": {"broker-a": {"0": offset}}})

    def tasks(**more: str) -> int:
        options = read_options({"namesrv": bolide_broker.namesrv_addr, "subscribe": "T", **more})
        return len(RocketMQReader(options, SCHEMA).partitions())

    beyond = "reading of T@broker-a:0 would start at offset 101, but it ends at 100"
    with pytest.raises(DataLost, match=beyond):
        tasks(startingOffsets=at(101))
    assert tasks(startingOffsets=at(101), failOnDataLoss="false") == 0
    assert tasks(startingOffsets=at(100)) == 0, "messages may arrive there"
    with Admin(bolide_broker.namesrv_addr) as admin:
        admin.create_group("ahead")
        admin.set_group_offset("ahead", MessageQueue("T", "broker-a", 0), 101)
    with pytest.raises(DataLost, match=beyond):
        tasks(startingOffsets="group", group="ahead")
    with pytest.raises(OptionError, match="would start at offset 20 and end at 10: give endingOffsets after"):
        tasks(startingOffsets=at(20), endingOffsets=at(10))
    assert tasks(startingOffsets=at(20), endingOffsets=at(20)) == 0


def test_messages_that_an_answer_leaves_out_are_missed(bolide_broker: Broker) -> None:
    """A broker that deletes a file answers with what is left, and says nothing of what is not."""
    bolide_broker.create_topic("T", queues=1)
    send(bolide_broker.namesrv_addr, some("T")[:10])
    part = Range(Queue("T", "broker-a", 0), 0, 10)
    options = read_options({"namesrv": bolide_broker.namesrv_addr, "subscribe": "T"})
    data = b"".join(body for body, _ in RangeReader(part, master_alone(bolide_broker.broker_addr), options).chunks())
    second = int(chain_starts(data)[1])
    assert [batch.num_rows for batch in RowMaker(part, options, SCHEMA).rows(data, 0, 10)] == [10]
    with pytest.raises(DataLost, match=r"T@broker-a:0: the broker has only 9 of the 10 messages at offsets 0 to 10"):
        list(RowMaker(part, options, SCHEMA).rows(data[second:], 0, 10))
    tolerant = read_options({"namesrv": "h:1", "subscribe": "T", "failOnDataLoss": "false"})
    assert [batch.num_rows for batch in RowMaker(part, tolerant, SCHEMA).rows(data[second:], 0, 10)] == [9]


def test_message_that_does_not_match_its_crc_is_left_out(
    bolide_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    bolide_broker.create_topic("T", queues=1)
    send(bolide_broker.namesrv_addr, some("T")[:10])
    part = Range(Queue("T", "broker-a", 0), 0, 10)
    options = read_options({"namesrv": bolide_broker.namesrv_addr, "subscribe": "T"})
    data = b"".join(body for body, _ in RangeReader(part, master_alone(bolide_broker.broker_addr), options).chunks())
    damaged = bytearray(data)
    damaged[int(chain_starts(data)[4]) + 88] ^= 1
    with pytest.raises(DataLost, match=r"1 messages do not match their CRCs, first of T@broker-a:0 offset 4: .*verify"):
        list(RowMaker(part, options, SCHEMA).rows(bytes(damaged), 0, 10))
    tolerant = read_options({"namesrv": "h:1", "subscribe": "T", "failOnDataLoss": "false"})
    (batch,) = RowMaker(part, tolerant, SCHEMA).rows(bytes(damaged), 0, 10)
    assert batch.column("queue_offset").to_pylist() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert "T@broker-a:0 offset 4" in caplog.text


def test_many_small_queues_share_tasks_and_connections(bolide_broker: Broker) -> None:
    queues = 3 * MANY
    bolide_broker.create_topic("T", queues=queues)
    messages = [Message("T", b"x-%d" % n) for n in range(2 * queues)]
    send(bolide_broker.namesrv_addr, messages)
    options = {"namesrv": bolide_broker.namesrv_addr, "subscribe": "T"}
    reader = RocketMQReader(read_options(options), SCHEMA)
    tasks = reader.partitions()
    assert len(tasks) <= MANY
    batches = [batch for task in tasks for batch in reader.read(pickle.loads(pickle.dumps(task)))]
    assert len(batches) == len(tasks), "small batches are joined"
    assert sorted(body for batch in batches for body in batch.column("body").to_pylist()) == sorted(
        message.body for message in messages
    )
    split = RocketMQReader(read_options({**options, "minPartitions": str(2 * MANY)}), SCHEMA)
    assert len(split.partitions()) == 2 * MANY
