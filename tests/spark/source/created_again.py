"""A topic that is created again, and queries that had read the old one."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import LongType, StructField, StructType

from bolide.spark.source.source_options import read_options
from bolide.spark.source.stream import RocketMQStreamReader
from bolide.spark.spark_versions import ReadAllAvailable
from bolide.testing.broker import Broker
from tests.client.patient_blocking import Admin
from tests.spark.source.checkpoints import produce, rows, stored
from tests.spark.target import Target

SCHEMA = StructType([StructField("queue_offset", LongType())])
ALL = ReadAllAvailable()
ANEW = "its topic was deleted and created again, or its broker lost messages; set failOnDataLoss to false to read it"
OPEN: list[RocketMQStreamReader] = []


def reader(target: Target | Broker, now: bool = False, **more: object) -> RocketMQStreamReader:
    """A query that starts again from a checkpoint; with `now` one that ends with what is there."""
    options = {"namesrv": target.namesrv_addr, "discoveryIntervalMs": "100"} | {n: str(v) for n, v in more.items()}
    OPEN.append(RocketMQStreamReader(read_options(options, streaming=True), SCHEMA))
    if now:
        OPEN[-1].prepareForTriggerAvailableNow()
    return OPEN[-1]


def read_up_to(target: Target | Broker, topic: str, count: int) -> dict[str, Any]:
    """The checkpoint of a query that read so many messages of the topic's only queue."""
    target.create_topic(topic, queues=1)
    produce(target, topic, count)
    first = reader(target, subscribe=topic, startingOffsets="earliest")
    start = stored(first.initialOffset())
    end = stored(first.latestOffset(start, ALL))
    assert len(rows(first, start, end)) == count
    return end


def make_anew(target: Target | Broker, topic: str, count: int) -> None:
    with Admin(target.namesrv_addr) as admin:
        admin.delete_topic(topic)
    target.create_topic(topic, queues=1)
    produce(target, topic, count)
