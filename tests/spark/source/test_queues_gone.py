"""Queues that a read can no longer reach: a run that ends by itself says so, and does not end as if they were empty."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import LongType, StructField, StructType

from bolide.client import Message
from bolide.spark.data_source import RocketMQDataSource
from bolide.spark.errors import DataLost
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.marks import marks_of, marks_to_json
from bolide.spark.source.source_options import read_options
from bolide.spark.source.stream import RocketMQStreamReader
from bolide.spark.spark_versions import ReadAllAvailable
from bolide.testing.broker import Broker
from proof.kit.waiting import wait_until
from tests.client.patient_blocking import Admin
from tests.spark.produce import send
from tests.spark.source.checkpoints import rows, stored
from tests.spark.target import Target

SCHEMA = StructType([StructField("queue_offset", LongType())])
ALL = ReadAllAvailable()


@pytest.fixture
def opened() -> Iterator[list[RocketMQStreamReader]]:
    """Readers that are closed after the test."""
    readers: list[RocketMQStreamReader] = []
    yield readers
    for reader in readers:
        reader.stop()


def reader_of(opened: list[RocketMQStreamReader], namesrv: str, topic: str, now: bool, **more: str) -> Any:
    options = {"namesrv": namesrv, "discoveryIntervalMs": "100", "startingOffsets": "earliest"}
    chosen = {"subscribe": topic} if topic else {}
    made = RocketMQStreamReader(read_options({**options, **chosen, **more}, streaming=True), SCHEMA)
    opened.append(made)
    if now:
        made.prepareForTriggerAvailableNow()
    return made


def read_some(opened: list[RocketMQStreamReader], target: Broker | Target, topic: str, queues: int = 2) -> Any:
    """The offset of a query that has read a few messages of a new topic."""
    target.create_topic(topic, queues=queues)
    send(target.namesrv_addr, [Message(topic, b"m%d" % number) for number in range(8)])
    first = reader_of(opened, target.namesrv_addr, topic, False)
    start = stored(first.initialOffset())
    wait_until(lambda: sum(stored(first.latestOffset(start, ALL))["queues"][topic]["broker-a"].values()) == 8, "read")
    return stored(first.latestOffset(start, ALL))


def delete_topic(namesrv: str, topic: str) -> None:
    with Admin(namesrv) as admin:
        admin.delete_topic(topic)
        wait_until(lambda: topic not in admin.topics(), "the name server forgets the topic")


def test_a_deleted_topic(opened: list[RocketMQStreamReader], caplog: pytest.LogCaptureFixture) -> None:
    with Broker() as broker:
        end = read_some(opened, broker, "T")
        delete_topic(broker.namesrv_addr, "T")
        with pytest.raises(DataLost, match="T@broker-a:0 no longer exists: its topic was deleted"):
            reader_of(opened, broker.namesrv_addr, "T", True).latestOffset(end, ALL)
        waiting = reader_of(opened, broker.namesrv_addr, "T", False)
        with caplog.at_level(logging.WARNING, "bolide.spark"):
            assert waiting.latestOffset(end, ALL) is end
            assert waiting.latestOffset(end, ALL) is end
        said = [one.getMessage() for one in caplog.records if "waits for it" in one.getMessage()]
        assert len(said) == 2, "one for each queue, once"
        loose = reader_of(opened, broker.namesrv_addr, "T", True, failOnDataLoss="false")
        settled = stored(loose.latestOffset(end, ALL))
        assert settled["queues"] == {}
        following = reader_of(opened, broker.namesrv_addr, "T", True)
        assert following.latestOffset(settled, ALL) is settled, "it is settled"


@pytest.mark.parametrize(
    "narrower",
    [{}, {"failOnDataLoss": "false"}, {"subscribePattern": "[BC]"}, {"assign": '{"B": {"broker-a": [0]}}'}],
    ids=str,
)
def test_topics_that_are_no_longer_subscribed(opened: list[RocketMQStreamReader], narrower: dict[str, str]) -> None:
    with Broker() as broker:
        for topic in ("A", "B"):
            broker.create_topic(topic, queues=1)
            send(broker.namesrv_addr, [Message(topic, b"x")] * 4)
        first = reader_of(opened, broker.namesrv_addr, "A,B", True)
        end = stored(first.latestOffset(stored(first.initialOffset()), ALL))
        for topic in ("A", "B"):
            send(broker.namesrv_addr, [Message(topic, b"x")] * 2)
        subscribe = "" if narrower.keys() & {"subscribePattern", "assign"} else "B"
        second = reader_of(opened, broker.namesrv_addr, subscribe, True, commitOffsets="true", **narrower)
        later = stored(second.latestOffset(end, ALL))
        assert later["queues"] == {"A": {"broker-a": {"0": 4}}, "B": {"broker-a": {"0": 6}}}
        assert rows(second, end, later) == [(0, 4), (0, 5)]
        again = reader_of(opened, broker.namesrv_addr, "A,B", True)
        last = stored(again.latestOffset(later, ALL))
        assert last["queues"]["A"] == {"broker-a": {"0": 6}}
        assert rows(again, later, last) == [(0, 4), (0, 5)], "those of A that no run has read"


def test_a_planned_batch_of_topics_that_are_no_longer_subscribed(opened: list[RocketMQStreamReader]) -> None:
    with Broker() as namesrv, Broker(broker_name="broker-b", namesrv_addr=namesrv.namesrv_addr):
        namesrv.create_topic("B", queues=1)
        with Admin(namesrv.namesrv_addr) as admin:
            admin.create_topic("A", queues=1, broker="broker-b")
        for topic in ("A", "B"):
            send(namesrv.namesrv_addr, [Message(topic, b"x")] * 4)
        first = reader_of(opened, namesrv.namesrv_addr, "A,B", True)
        start = stored(first.initialOffset())
        end = stored(first.latestOffset(start, ALL))
        second = reader_of(opened, namesrv.namesrv_addr, "B", True)
        assert len(rows(second, start, end)) == 8, "a batch is repeated with the rows that it had"


def test_a_broker_that_is_down(opened: list[RocketMQStreamReader]) -> None:
    with Broker() as namesrv:
        with Broker(broker_name="broker-b", namesrv_addr=namesrv.namesrv_addr) as second:
            with Admin(namesrv.namesrv_addr) as admin:
                admin.create_topic("T", queues=1, broker="broker-b")
            send(namesrv.namesrv_addr, [Message("T", b"m%d" % number) for number in range(5)])
            first = reader_of(opened, namesrv.namesrv_addr, "T", True)
            end = stored(first.latestOffset(stored(first.initialOffset()), ALL))
            assert end["queues"] == {"T": {"broker-b": {"0": 5}}}
            assert second.broker_addr
        with pytest.raises(DataLost, match="T@broker-b:0 cannot be read to its end: broker broker-b is not registered"):
            reader_of(opened, namesrv.namesrv_addr, "T", True).latestOffset(end, ALL)
        loose = reader_of(opened, namesrv.namesrv_addr, "T", True, failOnDataLoss="false")
        assert loose.latestOffset(end, ALL) is end, "its position is kept: it may come back"
        narrowed = reader_of(opened, namesrv.namesrv_addr, "T", True, brokers="broker-a")
        assert narrowed.latestOffset(end, ALL) is end, "nobody asks for it"


def test_messages_in_the_former_queues_of_a_topic(
    opened: list[RocketMQStreamReader], rocketmq: Target, topic: str
) -> None:
    rocketmq.create_topic(topic, queues=2)
    rocketmq.send([Message(topic, b"m%d" % number) for number in range(8)])
    rocketmq.create_topic(topic, queues=1)
    where = {"namesrv": rocketmq.namesrv_addr, "subscribe": topic, "discoveryIntervalMs": "100"}

    def shrunk() -> bool:
        cluster = Cluster(read_options(where))
        try:
            return len(cluster.queues([topic])) == 1
        finally:
            cluster.close()

    wait_until(shrunk, "the name server knows")
    said = f"{topic}@broker-a:1 holds messages at offsets 0 to [0-9]+, but its topic has only 1 queues for reading"
    with pytest.raises(DataLost, match=said):
        RocketMQDataSource(CaseInsensitiveDict(where)).reader(SCHEMA).partitions()
    with pytest.raises(DataLost, match=said):
        reader_of(opened, rocketmq.namesrv_addr, topic, False).initialOffset()
    for more in ({"failOnDataLoss": "false"}, {"queueIds": "0"}):
        assert RocketMQDataSource(CaseInsensitiveDict(where | more)).reader(SCHEMA).partitions()
    late = reader_of(opened, rocketmq.namesrv_addr, topic, True, startingOffsets="latest")
    start = stored(late.initialOffset())
    assert late.latestOffset(start, ALL) is start, "it wants nothing of what is there"


def test_queues_that_came_and_went_between_two_runs(opened: list[RocketMQStreamReader]) -> None:
    with Broker() as broker:
        end = read_some(opened, broker, "T", queues=1)
        broker.create_topic("T", queues=3)
        grown = [Message("T", b"more%d" % number) for number in range(9)]
        wait_until(lambda: len(queues_now(broker)) == 3, "the name server knows")
        send(broker.namesrv_addr, grown)
        broker.create_topic("T", queues=1)
        wait_until(lambda: len(queues_now(broker)) == 1, "the name server knows")
        with pytest.raises(DataLost, match="T@broker-a:1 holds messages at offsets 0 to [0-9]+, but its topic has"):
            reader_of(opened, broker.namesrv_addr, "T", True).latestOffset(end, ALL)
        loose = reader_of(opened, broker.namesrv_addr, "T", True, failOnDataLoss="false")
        settled = stored(loose.latestOffset(end, ALL))
        assert settled["queues"]["T"]["broker-a"].keys() == {"0", "1", "2"}
        following = reader_of(opened, broker.namesrv_addr, "T", True)
        assert following.latestOffset(settled, ALL) is settled, "it is settled"


def test_queues_that_came_and_went_between_two_batches_of_one_run(opened: list[RocketMQStreamReader]) -> None:
    with Broker() as broker:
        end = read_some(opened, broker, "T", queues=1)
        broker.create_topic("T", queues=3)
        wait_until(lambda: len(queues_now(broker)) == 3, "the name server knows")
        send(broker.namesrv_addr, [Message("T", b"more%d" % number) for number in range(9)])
        broker.create_topic("T", queues=1)
        wait_until(lambda: len(queues_now(broker)) == 1, "the name server knows")
        with pytest.raises(DataLost, match="T@broker-a:1 holds messages at offsets 0 to [0-9]+, but its topic has"):
            follow(opened[0], end)


def test_a_topic_that_was_created_again_with_as_many_messages(opened: list[RocketMQStreamReader]) -> None:
    with Broker() as broker:
        end = read_some(opened, broker, "T", queues=1)
        delete_topic(broker.namesrv_addr, "T")
        broker.create_topic("T", queues=1)
        send(broker.namesrv_addr, [Message("T", b"other%d" % number) for number in range(8)])
        with pytest.raises(DataLost, match="T@broker-a:0 was read up to offset 8 and has another message at offset 7"):
            follow(opened[0], end)


def test_a_topic_that_was_created_again_with_fewer_queues(opened: list[RocketMQStreamReader]) -> None:
    with Broker() as broker:
        end = read_some(opened, broker, "T", queues=2)
        marks = {queue: mark for queue, mark in marks_of(end).items() if queue.queue_id != 0}
        end["last"] = marks_to_json(marks)  # as if nothing were known of the other queue
        end["queues"]["T"]["broker-a"]["0"] = 0
        delete_topic(broker.namesrv_addr, "T")
        broker.create_topic("T", queues=1)
        with pytest.raises(DataLost, match="T@broker-a:1 was read up to offset [0-9]+ and ends at 0 now: its"):
            reader_of(opened, broker.namesrv_addr, "T", True).latestOffset(end, ALL)
        loose = reader_of(opened, broker.namesrv_addr, "T", True, failOnDataLoss="false")
        settled = stored(loose.latestOffset(end, ALL))
        assert settled["queues"] == {"T": {"broker-a": {"0": 0}}}


def follow(reader: RocketMQStreamReader, end: Any) -> None:
    """Ask for batch after batch, as Spark does; it ends with the error that the reader raises."""
    place = end

    def ended() -> bool:
        nonlocal place
        found = reader.latestOffset(place, ALL)
        place = place if found is place else stored(found)
        return False

    wait_until(ended, "the query fails")


def queues_now(broker: Broker) -> list[Any]:
    cluster = Cluster(read_options({"namesrv": broker.namesrv_addr, "subscribe": "T"}))
    try:
        return cluster.queues(["T"])
    finally:
        cluster.close()
