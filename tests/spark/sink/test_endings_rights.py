"""The exactly-once sink of a user with RocketMQ's usual right of a producer, and of one with less."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bolide.spark.errors import NotPermitted
from bolide.spark.sink.committing import CommitParts
from bolide.spark.sink.messages import Task
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.source_options import read_options
from bolide.testing.broker import Broker
from tests.client.patient_blocking import Admin
from tests.spark.acl import ROOT, grant, guarded, options_of
from tests.spark.sink_rounds import Dies, Stopped, commit, write

BODIES = [b"%d" % number for number in range(10)]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with guarded({"writer": {"Topic:T": ["Pub"]}}) as made:
        yield made


def stored(broker: Broker) -> int:
    options = {"namesrv": broker.namesrv_addr, "accessKey": "root", "secretKey": "s3cret-of-root", "subscribe": "T"}
    with closing(Cluster(read_options(options))) as cluster:
        return sum(cluster.latest(cluster.queues(["T"])).values())


def sink(broker: Broker, folder: Path, **more: str) -> dict[str, str]:
    checkpoint = {"checkpointLocation": str(folder), "mode": "exactly-once", "topic": "T"}
    return {**options_of(broker, "writer"), **checkpoint, "deliveryTimeoutMs": "600000", **more}


def test_pub_alone_writes_exactly_once(broker: Broker, tmp_path: Path) -> None:
    options = sink(broker, tmp_path)
    commit(options, [write(options, Task("q", 0, 0), BODIES)], 0)
    assert stored(broker) == len(BODIES)


def test_an_interrupted_commit_names_the_right_to_look_and_continues_with_it(broker: Broker, tmp_path: Path) -> None:
    options = sink(broker, tmp_path)
    written = [write(options, Task("q", 0, 0), BODIES)]
    with pytest.raises(Stopped):
        commit(options, written, 0, CommitParts(ender=Dies))
    # The limit of ten minutes shows that the refusal is not retried.
    with pytest.raises(NotPermitted, match="may not read .*needs the right Sub to the topic and to the group"):
        commit(options, written, 0)
    with Admin(broker.namesrv_addr, **ROOT) as admin:
        grant(admin, "writer", {"Topic:T": ["Pub", "Sub"], "Group:bolide-spark": ["Sub"]})
    commit(options, written, 0)
    assert stored(broker) == len(BODIES)


def test_a_right_that_is_taken_away_is_named(broker: Broker, tmp_path: Path) -> None:
    options = sink(broker, tmp_path)
    written = [write(options, Task("q", 0, 0), BODIES)]
    with Admin(broker.namesrv_addr, **ROOT) as admin:
        grant(admin, "writer", {"Topic:T": ["Get"]})
    with pytest.raises(NotPermitted, match="ending half messages needs the right Pub to the topic"):
        commit(options, written, 0)
