"""A query that reads one topic of a set and writes to another, while the set's master is killed and replaced."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bolide.client import Message, SendStatus
from bolide.errors import BolideError
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.source_options import read_options
from proof.interop.controlled_set import ControlledBrokers
from proof.kit.our_processes import OurController
from proof.kit.waiting import wait_until
from tests.client.patient import Producer
from tests.client.patient_blocking import Admin
from tests.spark.produce import send
from tests.spark.sink_rounds import records

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("spark")]

QUEUES = 2
PAUSE_S = 0.02
"""Between two sends: nothing is to be fast here."""
BEFORE = 800
"""Messages sent before the query starts, so that it is in the middle of a batch when the master is killed."""


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[ControlledBrokers]:
    """Two brokers in sync; a message is acknowledged when both have it."""
    of = ControlledBrokers(tmp_path, OurController(tmp_path / "controller"), {"allAckInSyncStateSet": "true"})
    try:
        of.start(1)
        of.start(2)
        yield of
    finally:
        of.stop()


class Sending(threading.Thread):
    """Sends numbers to topic In, one after the other, and remembers those that were acknowledged."""

    def __init__(self, namesrv: str) -> None:
        super().__init__()
        self.acknowledged: list[bytes] = []
        self._namesrv = namesrv
        self._enough = threading.Event()

    def end(self) -> None:
        """Send no more."""
        self._enough.set()
        self.join()

    def run(self) -> None:
        asyncio.run(self._send())

    async def _send(self) -> None:
        number = BEFORE
        async with Producer("sending", self._namesrv, timeout=10) as producer:
            while not self._enough.wait(PAUSE_S):
                number += 1
                body = b"%06d" % number
                try:
                    result = await producer.send(Message("In", body))
                except BolideError:
                    continue  # not acknowledged, whether or not it is stored
                if result.status is SendStatus.SEND_OK:
                    self.acknowledged.append(body)


@contextmanager
def sending(namesrv: str) -> Iterator[Sending]:
    """A sender that ends with the block."""
    thread = Sending(namesrv)
    thread.start()
    try:
        yield thread
    finally:
        thread.end()


@contextmanager
def copying(spark: Any, namesrv: str, checkpoint: Path, **mode: str) -> Iterator[Any]:
    """A query that copies topic In to topic Out, each queue to the same queue."""
    rows = spark.readStream.format("rocketmq").options(namesrv=namesrv, subscribe="In", startingOffsets="earliest")
    writer = rows.load().select("body", "queue_id").writeStream.format("rocketmq").queryName("election")
    # With one request under way, what has to be sent again is sent before what follows it. Each is for one row.
    given = {"topic": "Out", "sendsInFlight": "1", "batchBytes": "1", "checkpointLocation": str(checkpoint), **mode}
    writer = writer.options(namesrv=namesrv, **given)
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        yield query
    finally:
        query.stop()


def in_queues(namesrv: str, topic: str) -> list[list[bytes]]:
    """The different bodies of each queue, in the order in which they appear first."""
    found: list[dict[bytes, None]] = [{} for _ in range(QUEUES)]
    for record in records(namesrv, topic):
        found[record.queue_id][record.body] = None
    return [list(bodies) for bodies in found]


def begun(namesrv: str) -> list[bytes]:
    """Make both topics; the bodies that In has then."""
    with Admin(namesrv) as admin:
        for topic in ("In", "Out"):
            admin.create_topic(topic, queues=QUEUES)
    bodies = [b"%06d" % number for number in range(BEFORE)]
    send(namesrv, [Message("In", body) for body in bodies])
    return bodies


def test_an_exactly_once_query_repeats_nothing_across_an_election(
    spark: Any, replicas: ControlledBrokers, tmp_path: Path
) -> None:
    namesrv = replicas.namesrv.address
    before = begun(namesrv)
    # The log of the first batch is there once its half messages are stored: they are committed across the election.
    checkpoint = tmp_path / "checkpoint"
    with copying(spark, namesrv, checkpoint, mode="exactly-once") as query, sending(namesrv) as sender:
        wait_until(lambda: any((checkpoint / "rocketmq-commits").glob("*")), "it commits")
        replicas.kill(1)
        killed = len(sender.acknowledged)
        wait_until(lambda: replicas.state().get("masterBrokerId") == 2, "the slave is elected")
        wait_until(lambda: len(sender.acknowledged) > killed + 50, "it acknowledges")
        sender.end()
        query.processAllAvailable()
        assert query.isActive and query.exception() is None
    read = sorted(record.body for record in records(namesrv, "In"))
    assert {*before, *sender.acknowledged} <= set(read)
    assert sorted(record.body for record in records(namesrv, "Out")) == read


def test_a_query_goes_on_across_an_election(spark: Any, replicas: ControlledBrokers, tmp_path: Path) -> None:
    namesrv = replicas.namesrv.address
    before = begun(namesrv)
    cluster = Cluster(read_options({"namesrv": namesrv, "subscribe": "Out"}))

    def written() -> int:
        return sum(cluster.latest(cluster.queues(["Out"])).values())

    with copying(spark, namesrv, tmp_path / "checkpoint") as query, sending(namesrv) as sender:
        wait_until(lambda: written() > BEFORE // 10, "the query writes")
        replicas.kill(1)
        killed = len(sender.acknowledged)
        wait_until(lambda: replicas.state().get("masterBrokerId") == 2, "the slave is elected")
        assert written() < BEFORE, "it was killed in the middle"
        wait_until(lambda: len(sender.acknowledged) > killed + 50, "it acknowledges")
        sender.end()
        query.processAllAvailable()
        assert query.isActive and query.exception() is None
    cluster.close()
    assert {*before, *sender.acknowledged} <= set().union(*in_queues(namesrv, "In"))
    assert in_queues(namesrv, "Out") == in_queues(namesrv, "In")
