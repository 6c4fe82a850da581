"""A user with RocketMQ's usual rights of a reader: offsets come from pulls, and mean the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from bolide.spark.data_source import RocketMQReader
from bolide.spark.errors import NotPermitted
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.queues import Queue
from bolide.spark.source.source_options import read_options
from bolide.testing.broker import Broker
from tests.client.patient_blocking import Admin
from tests.spark.acl import ROOT, grant, guarded, options_of
from tests.spark.schemas import SCHEMA

USUAL = {"Topic:T": ["Sub"], "Group:bolide-spark": ["Sub"]}
QUEUE = Queue("T", "broker-a", 0)
COUNT = 20


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    rights = {"reader": USUAL, "full": {**USUAL, "Topic:T": ["Sub", "Get"]}, "writer": {"Topic:T": ["Pub"]}}
    with guarded(rights, COUNT) as made:
        yield made


def cluster(broker: Broker, user: str, **more: str) -> Cluster:
    made = Cluster(read_options({**options_of(broker, user), "subscribe": "T", **more}))
    made.queues(["T"])
    return made


def rows(broker: Broker, user: str, **more: str) -> list[int]:
    """The store times of what a batch read returns."""
    reader = RocketMQReader(read_options({**options_of(broker, user), "subscribe": "T", **more}), SCHEMA)
    return [
        time.value // 1000
        for task in reader.partitions()
        for batch in reader.read(task)
        for time in batch.column("store_timestamp")
    ]


def test_a_reader_without_get_reads_what_others_do(broker: Broker) -> None:
    times = rows(broker, "full")
    assert len(times) == COUNT
    assert rows(broker, "reader") == times
    middle = str(times[COUNT // 2])
    assert rows(broker, "reader", startingTimestamp=middle) == rows(broker, "full", startingTimestamp=middle)
    assert rows(broker, "reader", startingOffsets="group") == times


def test_positions_by_time_are_those_of_the_broker(broker: Broker) -> None:
    times = rows(broker, "full")
    wanted = [0, *(time + more for time in times for more in (0, 1)), times[-1] + 1]
    with closing(cluster(broker, "full")) as asked, closing(cluster(broker, "reader")) as pulled:
        assert pulled.earliest([QUEUE]) == asked.earliest([QUEUE]) == {QUEUE: 0}
        assert pulled.latest([QUEUE]) == asked.latest([QUEUE]) == {QUEUE: COUNT}
        assert [pulled.by_time({QUEUE: time}) for time in wanted] == [asked.by_time({QUEUE: time}) for time in wanted]


def test_refused_pulls_name_the_missing_right(broker: Broker) -> None:
    for user, more in (("writer", {}), ("reader", {"group": "foreign"})):
        with (
            closing(cluster(broker, user, **more)) as made,
            pytest.raises(NotPermitted, match=r"T@broker-a:0: the broker refuses pulls of group .*needs the right Sub"),
        ):
            made.latest([QUEUE])


def test_a_dropped_queue_has_no_offsets(broker: Broker) -> None:
    with closing(cluster(broker, "reader")) as made:
        assert made.latest([QUEUE, Queue("T", "broker-a", 7)]) == {QUEUE: COUNT}


def test_a_right_that_is_granted_later_is_noticed(broker: Broker) -> None:
    with Admin(broker.namesrv_addr, **ROOT) as admin:
        admin.create_user("late", "s3cret-of-late")
        with closing(cluster(broker, "late")) as made, pytest.raises(NotPermitted):
            made.latest([QUEUE])
        grant(admin, "late", USUAL)
        with closing(cluster(broker, "late")) as made:
            assert made.latest([QUEUE]) == {QUEUE: COUNT}
