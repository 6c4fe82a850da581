"""Option `keys`: the index is used for what it contains for certain, and no row is missing that a scan would find."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition

from bolide.client import Message
from bolide.remoting import codes
from bolide.remoting.command import Command
from bolide.spark.data_source import RocketMQReader
from bolide.spark.source.bounds import batch_offsets
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.key_lookup import CLOCKS_MS, TAIL, tasks_by_keys
from bolide.spark.source.queues import Offsets, Queue
from bolide.spark.source.ranges import Range
from bolide.spark.source.source_options import read_options
from bolide.spark.source.tasks import RangePartition, RangesPartition
from bolide.testing.broker import Broker
from tests.spark.produce import send
from tests.spark.schemas import SCHEMA

COUNT = 100


class OldIndex(Cluster):
    """A cluster whose brokers have not changed their settings since a time in ms, by default 1970."""

    since = 0
    replaced: tuple[bytes, bytes] = (b"", b"")
    """A text of the brokers' settings, and the text instead of it."""
    of_master = True
    first_at: Mapping[int, int] = {}
    """The first offset stored at a time or later, of any queue; empty: as the broker says."""

    def ask(self, broker: str, commands: list[Command]) -> list[Command]:
        answers = super().ask(broker, commands)
        if commands[0].code == codes.GET_BROKER_CONFIG:
            version = json.loads(answers[0].ext()["version"]) | {"timestamp": self.since}
            answers[0].ext()["version"] = json.dumps(version)
            answers[0].body = answers[0].body.replace(*self.replaced)
        return answers

    def by_time(self, times: Mapping[Queue, int]) -> Offsets:
        if not self.first_at:
            return super().by_time(times)
        return {queue: self.first_at[time] for queue, time in times.items()}

    def master_answered(self, broker: str) -> bool:
        return self.of_master and super().master_answered(broker)


def fill(broker: Broker, keys: list[list[str]], after: int = TAIL) -> None:
    """Store messages with these keys in one queue, and others after them."""
    messages = [Message("T", b"x", keys=each) for each in keys] + [Message("T", b"x", keys=["other"])] * after
    for first in range(0, len(messages), COUNT):
        send(broker.namesrv_addr, messages[first : first + COUNT])


def planned(broker: Broker, keys: str, **attributes: Any) -> list[InputPartition] | None:
    options = read_options({"namesrv": broker.namesrv_addr, "subscribe": "T", "keys": keys})
    cluster = OldIndex(options)
    vars(cluster).update(attributes)
    try:
        return tasks_by_keys(cluster, options, *batch_offsets(cluster, options))
    finally:
        cluster.close()


def rows(broker: Broker, keys: str) -> int:
    reader = RocketMQReader(read_options({"namesrv": broker.namesrv_addr, "subscribe": "T", "keys": keys}), SCHEMA)
    return sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task))


def ranges(tasks: list[InputPartition] | None) -> list[tuple[str, int, int]]:
    """Each range of the tasks: whether it is from the index, begin, end."""
    found: list[tuple[str, int, int]] = []
    for task in tasks or []:
        assert isinstance(task, RangePartition | RangesPartition)
        parts: tuple[Range, ...] = task.parts if isinstance(task, RangesPartition) else (task.part,)
        kind = "index" if isinstance(task, RangesPartition) else "scan"
        found += [(kind, part.begin, part.end) for part in parts]
    return found


def test_messages_from_a_time_without_an_index_are_found(tmp_path: Path) -> None:
    keys = [[f"k{n}"] for n in range(COUNT)]
    with Broker(str(tmp_path), message_index_enable=False) as broker:
        broker.create_topic("T", queues=1)
        fill(broker, keys)
    with Broker(str(tmp_path)) as broker:
        fill(broker, keys)
        assert rows(broker, "k3,k5") == 4


def test_the_index_is_asked_for_what_was_stored_since_settings_changed(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T", queues=1)
    fill(bolide_broker, [[f"k{n}"] for n in range(COUNT)])
    whole = COUNT + TAIL
    assert ranges(planned(bolide_broker, "k3,k7")) == [("index", 3, 4), ("index", 7, 8), ("index", COUNT, whole)]
    late = ranges(planned(bolide_broker, "k3,k7", since=1 << 50))
    assert late == [("scan", 0, COUNT), ("index", COUNT, whole)]
    part = ranges(planned(bolide_broker, "k3,k7", since=7_000 - CLOCKS_MS, first_at={7_000: 5}))
    assert part == [("scan", 0, 5), ("index", 7, 8), ("index", COUNT, whole)]


@pytest.mark.parametrize(
    "attributes",
    [
        {"replaced": (b"messageIndexEnable=true", b"messageIndexEnable=false")},
        {"replaced": (b"indexFileWriteEnable=true", b"indexFileWriteEnable=false")},
        {"replaced": (b"indexFileReadEnable=true", b"indexFileReadEnable=false")},
        {"replaced": (b"maxMsgsNumBatch=64", b"maxMsgsNumBatch=2")},
        {"since": "unknown"},
        {"of_master": False},
    ],
    ids=str,
)
def test_queues_are_read_if_an_index_may_be_incomplete(bolide_broker: Broker, attributes: dict[str, Any]) -> None:
    bolide_broker.create_topic("T", queues=1)
    fill(bolide_broker, [["k"], ["k"]], after=2 * TAIL)
    assert planned(bolide_broker, "k") is not None
    assert planned(bolide_broker, "k", **attributes) is None


def test_a_broker_with_a_smaller_limit_leaves_nothing_out() -> None:
    with Broker(max_msgs_num_batch=10) as broker:
        broker.create_topic("T", queues=1)
        fill(broker, [["k"]] * 20)
        assert planned(broker, "k") is None
        assert rows(broker, "k") == 20


def test_keys_that_messages_name_twice_leave_nothing_out(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T", queues=1)
    fill(bolide_broker, [["k", "k"]] * 40 + [["twice", "twice"]] * 20)
    assert planned(bolide_broker, "k") is None
    assert planned(bolide_broker, "twice") is not None
    assert rows(bolide_broker, "k") == 40
