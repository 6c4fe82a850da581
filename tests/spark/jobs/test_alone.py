"""A job that must not run twice at once does not, on one machine or on two, with Bolide's and Java's brokers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bolide.client import Message
from bolide.remoting import codes
from bolide.remoting.bodies.base import MessageQueue, encode_body
from bolide.remoting.bodies.locks import UnlockBatchRequestBody
from bolide.remoting.command import make_request
from bolide.spark.errors import AlreadyRunning
from bolide.spark.jobs.alone import EXPIRY_S, LOCK, Lease, only_run
from bolide.spark.jobs.mirror import mirror
from bolide.spark.jobs.redrive import redrive
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.queues import Queue
from bolide.spark.source.source_options import SourceOptions, read_options
from bolide.testing.broker import Broker
from proof.kit.children import start
from proof.kit.waiting import wait_until
from tests.spark.produce import send
from tests.spark.target import Target

GROUP = "mover"


def options(namesrv: str, topic: str, **more: str) -> SourceOptions:
    return read_options({"namesrv": namesrv, "subscribe": topic, "group": GROUP, **more})


def queues_of(checked: SourceOptions, topic: str) -> list[Queue]:
    cluster = Cluster(checked)
    try:
        return cluster.queues([topic])
    finally:
        cluster.close()


def test_second_lease_is_rejected(rocketmq: Target, topic: str) -> None:
    rocketmq.create_topic(topic)
    checked = options(rocketmq.namesrv_addr, topic)
    queues = queues_of(checked, topic)
    with Lease(checked, queues, "the job") as first:
        first.check()
        with (
            pytest.raises(AlreadyRunning, match="another run of the job is active"),
            Lease(checked, queues, "the job"),
        ):
            pass
        first.check()
        other = options(rocketmq.namesrv_addr, topic, group="another")
        with Lease(other, queues, "the job of another group") as second:
            second.check()
    # What was given back, and what a refused one took before it was refused, is free at once.
    with Lease(checked, queues[1:], "the job"), Lease(checked, queues[:1], "the job"):
        pass


def test_a_refused_lease_keeps_nothing(rocketmq: Target, topic: str) -> None:
    rocketmq.create_topic(topic)
    checked = options(rocketmq.namesrv_addr, topic)
    queues = queues_of(checked, topic)
    with Lease(checked, queues[-1:], "the job"):
        with pytest.raises(AlreadyRunning), Lease(checked, queues, "the job"):
            pass
        with Lease(checked, queues[:-1], "the job"):
            pass


def give_up(checked: SourceOptions, client_id: str, queues: Sequence[Queue]) -> None:
    """As a broker that starts again does: it knows of no lock."""
    cluster = Cluster(checked)
    for queue in queues:
        locked = [MessageQueue(queue.topic, queue.broker, queue.queue_id)]
        body = encode_body(UnlockBatchRequestBody(checked.group, client_id, locked))
        cluster.ask(queue.broker, [make_request(codes.UNLOCK_BATCH_MQ, 0, {}, body)])
    cluster.close()


def test_a_lease_that_another_took_is_lost(rocketmq: Target, topic: str) -> None:
    rocketmq.create_topic(topic, queues=1)
    checked = options(rocketmq.namesrv_addr, topic)
    queues = queues_of(checked, topic)

    def lost() -> bool:
        with suppress(AlreadyRunning):
            first.check()
            return False
        return True

    def taken() -> bool:
        give_up(checked, first.client_id, queues)
        try:
            second.__enter__()
        except AlreadyRunning:
            return False  # the first took it again in between
        return True

    with Lease(checked, queues, "the job", renew_s=0.2) as first:
        second = Lease(checked, queues, "the job")
        while not taken():
            second = Lease(checked, queues, "the job")
        try:
            wait_until(lost, "the first lease is lost")
            with pytest.raises(AlreadyRunning, match="another run has taken over"):
                first.check()
        finally:
            second.__exit__()


@pytest.mark.slow
def test_a_lease_that_cannot_be_renewed_is_given_up_before_it_expires() -> None:
    with Broker() as broker:
        broker.create_topic("T")
        checked = options(broker.namesrv_addr, "T", retryTimeoutMs="0", requestTimeoutMs="5000")
        lease = Lease(checked, queues_of(checked, "T"), "the job", renew_s=0.1, expiry_s=8)
        with lease:
            lease.check()
            broker.stop()

            def lost() -> bool:
                with suppress(AlreadyRunning):
                    lease.check()
                    return False
                return True

            wait_until(lost, "the lease is lost", EXPIRY_S - 10)  # a broker keeps its locks for longer
            with pytest.raises(AlreadyRunning, match="a broker did not answer for too long"):
                lease.check()


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_second_redrive_is_refused_and_sends_nothing(spark: Any, bolide_broker: Broker) -> None:
    namesrv = bolide_broker.namesrv_addr
    bolide_broker.create_topic("T", queues=1)
    bolide_broker.create_topic("%DLQ%G", queues=1)
    send(namesrv, [Message("%DLQ%G", b"late")])
    checked = options(namesrv, "%DLQ%G", group="bolide-redrive")
    with (
        Lease(checked, queues_of(checked, "%DLQ%G"), "redrive"),
        pytest.raises(AlreadyRunning, match="another run of redrive G as group bolide-redrive is active"),
    ):
        redrive(spark, "G", {"namesrv": namesrv}, topic="T")
    assert redrive(spark, "G", {"namesrv": namesrv}, topic="T").messages == 1
    assert redrive(spark, "G", {"namesrv": namesrv}, topic="T").messages == 0


HOLDER = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_checkpoint_has_one_run(spark: Any, bolide_broker: Broker, tmp_path: Path) -> None:
    namesrv = bolide_broker.namesrv_addr
    bolide_broker.create_topic("T")
    source = {"namesrv": namesrv, "subscribe": "T"}
    with only_run(spark, str(tmp_path / "c"), "mirror"):
        pass
    # Another process, as it would be.
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "c" / LOCK)]
    with start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(AlreadyRunning, match="another mirror is running with the checkpoint .*/c: wait"):
            mirror(spark, source, {"namesrv": namesrv}, checkpoint=str(tmp_path / "c"), prefix="Copy")
    assert mirror(spark, source, {"namesrv": namesrv}, checkpoint=f"file://{tmp_path}/c", prefix="Copy").messages == 0
