"""What a slave does not have yet: the reader waits for it, and believes none but the master that it is gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.spark.errors import ClusterUnavailable, DataLost
from bolide.spark.source.fetch import RangeReader
from bolide.spark.source.members import BrokerMembers, master_alone
from bolide.spark.source.queues import Queue
from bolide.spark.source.ranges import Range
from bolide.spark.source.source_options import read_options
from tests.client.scripted_broker import ScriptedBroker
from tests.spark.source.fetched import QUICK, offsets

PART = Range(Queue("T", "broker-a", 0), 0, 5)
GONE = "127.0.0.1:1"
"""Where the master was."""


@pytest.fixture
def slave() -> Iterator[ScriptedBroker]:
    """A slave with all messages, of a set whose master is away."""
    with ScriptedBroker("broker-a", queues=1) as broker:
        broker.addresses = {"1": broker.address}
        for number in range(5):
            broker.store("T", 0, b"%d" % number, "")
        yield broker


def lacks(slave: ScriptedBroker, code: int, pulls: int) -> None:
    """The slave does not know the queue, or its messages, for so many pulls."""
    done = 0

    def answer(command: Command) -> Command | None:
        nonlocal done
        done += 1
        if done > pulls:
            return slave.pull(command, wait=False)
        ends = {"nextBeginOffset": "0", "minOffset": "0", "maxOffset": "0", "suggestWhichBrokerId": "0"}
        return make_response(command, code, "as scripted", ext=ends)

    slave.script[codes.PULL_MESSAGE] = answer


def reader(slave: ScriptedBroker, members: BrokerMembers, **more: str) -> RangeReader:
    given = {"namesrv": slave.address, "subscribe": "T", **more}
    return RangeReader(PART, members, read_options(given), QUICK)


@pytest.mark.parametrize("code", [codes.TOPIC_NOT_EXIST, codes.INVALID_PARAMETER, codes.PULL_OFFSET_MOVED])
def test_a_slave_that_was_not_told_of_a_queue_is_asked_again(slave: ScriptedBroker, code: int) -> None:
    lacks(slave, code, 7)
    found = reader(slave, BrokerMembers((GONE, slave.address), GONE))
    assert offsets(found.chunks()) == list(range(5))
    assert len(slave.requests(codes.PULL_MESSAGE)) == 8


def test_without_any_master_nothing_is_passed_over(slave: ScriptedBroker) -> None:
    lacks(slave, codes.TOPIC_NOT_EXIST, 1 << 30)
    for loss in ("true", "false"):
        found = reader(slave, BrokerMembers((slave.address,)), retryTimeoutMs="100", failOnDataLoss=loss)
        with pytest.raises(ClusterUnavailable, match="no master of broker broker-a responded, and its replica at"):
            list(found.chunks())


def test_a_slave_that_became_the_master_is_believed(slave: ScriptedBroker) -> None:
    def answer(command: Command) -> Command:
        if len(slave.requests(codes.PULL_MESSAGE)) == 3:
            slave.addresses = {"0": slave.address}
        return make_response(command, codes.TOPIC_NOT_EXIST, "deleted")

    slave.script[codes.PULL_MESSAGE] = answer
    with pytest.raises(DataLost, match="the broker no longer has this queue"):
        list(reader(slave, BrokerMembers((GONE, slave.address), GONE)).chunks())
    assert 3 < len(slave.requests(codes.PULL_MESSAGE)) < 10


def test_a_master_that_was_replaced_meanwhile_is_a_replica(slave: ScriptedBroker) -> None:
    lacks(slave, codes.TOPIC_NOT_EXIST, 2)
    assert offsets(reader(slave, master_alone(slave.address)).chunks()) == list(range(5))
