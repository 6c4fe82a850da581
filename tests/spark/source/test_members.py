"""A slave that a name server shows as id 0 while the master is away: it may lag, so it proves nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from bolide.spark.errors import DataLost
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.last_read import look
from bolide.spark.source.queues import Offsets, Queue, to_json
from bolide.spark.source.source_options import SourceOptions, read_options
from bolide.spark.source.stream import RocketMQStreamReader
from bolide.spark.spark_versions import ReadAllAvailable
from proof.kit.waiting import wait_until
from tests.spark.acting import ActingSet

QUEUE = Queue("T", "broker-a", 0)
SCHEMA = StructType([StructField("queue_offset", LongType())])


@pytest.fixture
def acting() -> Iterator[ActingSet]:
    """A slave with 3 messages, in the place of its master."""
    with ActingSet(queues=1) as broker:
        for number in range(3):
            broker.store("T", 0, b"%d" % number, "")
        yield broker


@pytest.fixture
def cluster(acting: ActingSet) -> Iterator[Cluster]:
    """What the driver knows of the set."""
    made = Cluster(options(acting))
    yield made
    made.close()


def options(broker: ActingSet, streaming: bool = False) -> SourceOptions:
    return read_options(
        {"namesrv": broker.address, "subscribe": "T", "discoveryIntervalMs": "100"}, streaming=streaming
    )


def shown_as_master(cluster: Cluster) -> str:
    cluster.forget("T")
    cluster.queues(["T"])
    return cluster.master("broker-a")


def test_the_list_of_brokers_decides_who_is_the_master(acting: ActingSet, cluster: Cluster) -> None:
    assert shown_as_master(cluster) == ""
    acting.perm = 4  # a topic that an operator made read-only, of a set with a master
    acting.away = False
    assert shown_as_master(cluster) == acting.address


def test_without_acting_masters_id_0_is_the_master(acting: ActingSet, cluster: Cluster) -> None:
    acting.acting = False
    assert shown_as_master(cluster) == acting.address


def test_a_queue_that_ends_earlier_at_an_acting_slave_is_the_one_that_was_read(acting: ActingSet) -> None:
    reader = RocketMQStreamReader(options(acting, streaming=True), SCHEMA)
    read = {"queues": to_json({QUEUE: 9})}
    try:
        assert reader.latestOffset(read, ReadAllAvailable()) is read
        acting.away = False
        with pytest.raises(DataLost, match="T@broker-a:0 was read up to offset 9 and ends at 3 now"):
            wait_until(
                lambda: reader.latestOffset(read, ReadAllAvailable()) is not read, "the route is asked for again"
            )
    finally:
        reader.stop()


def ends(cluster: Cluster) -> Offsets:
    cluster.forget("T")
    cluster.queues(["T"])
    return look(cluster, "g", {QUEUE: 9}).ends


def test_only_a_master_says_that_the_last_message_read_is_gone(acting: ActingSet, cluster: Cluster) -> None:
    assert ends(cluster) == {}
    acting.away = False
    assert ends(cluster) == {QUEUE: 3}


def test_a_master_that_was_replaced_meanwhile_says_nothing(acting: ActingSet) -> None:
    acting.away = False
    slow = Cluster(read_options({"namesrv": acting.address, "subscribe": "T"}))
    try:
        slow.queues(["T"])
        acting.away = True  # the route is known for ten seconds
        assert look(slow, "g", {QUEUE: 9}).ends == {}
        assert not slow.master_answered("broker-a")
    finally:
        slow.close()
