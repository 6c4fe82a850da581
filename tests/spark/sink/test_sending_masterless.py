"""Sends to a set of brokers of which only a slave is left: none goes to the slave."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bolide.errors import BolideError
from bolide.remoting import codes
from bolide.spark.errors import ClusterUnavailable
from bolide.spark.sink.messages import Task
from tests.client.scripted_broker import ScriptedBroker
from tests.spark.acting import ActingSet
from tests.spark.sink_rounds import write

TASK = Task("q", 0, 3)


@pytest.fixture
def lonely() -> Iterator[ScriptedBroker]:
    """A set that is registered with its slave alone."""
    with ScriptedBroker("broker-a") as broker:
        broker.addresses = {"1": broker.address}
        yield broker


def options(broker: ScriptedBroker) -> dict[str, str]:
    return {"namesrv": broker.address, "topic": "T", "deliveryTimeoutMs": "500"}


def sends(broker: ScriptedBroker) -> int:
    return len(broker.requests(codes.SEND_MESSAGE_V2)) + len(broker.requests(codes.SEND_BATCH_MESSAGE))


def test_without_a_master_the_sink_says_so_and_sends_nothing(lonely: ScriptedBroker) -> None:
    with pytest.raises(BolideError, match="no master of broker broker-a is registered: its slaves take no messages"):
        write(options(lonely), TASK, [b"x"])
    assert sends(lonely) == 0


def test_rows_go_to_the_set_that_has_a_master(lonely: ScriptedBroker) -> None:
    with ScriptedBroker("broker-b") as other:
        lonely.others.append(other)
        write({**options(lonely), "deliveryTimeoutMs": "60000"}, TASK, [b"%d" % number for number in range(20)])
        assert sum(len(bodies) for bodies in other.stored.values()) == 20
    assert sends(lonely) == 0


@pytest.fixture
def acting() -> Iterator[ActingSet]:
    """A set with acting masters whose master is away: no queue takes sends."""
    with ActingSet() as broker:
        yield broker


AWAY = "row 0 of this partition was not stored in topic T within 0.5 s: no master of broker broker-a is registered"


def test_rows_wait_for_the_master_of_a_set_with_acting_masters(acting: ActingSet) -> None:
    with pytest.raises(ClusterUnavailable, match=AWAY):
        write(options(acting), TASK, [b"x"])
    seen = len(acting.requests(codes.GET_ROUTEINFO_BY_TOPIC))

    def return_in_time() -> None:
        acting.away = len(acting.requests(codes.GET_ROUTEINFO_BY_TOPIC)) < seen + 4

    acting.asked = return_in_time
    # Less than the ten seconds for which a route is known.
    write({**options(acting), "deliveryTimeoutMs": "8000"}, TASK, [b"%d" % number for number in range(20)])
    assert sum(len(bodies) for bodies in acting.stored.values()) == 20


def test_a_row_for_a_queue_of_such_a_set_waits_too(acting: ActingSet) -> None:
    with ScriptedBroker("broker-b", queues=1) as other:
        acting.others.append(other)
        with pytest.raises(ClusterUnavailable, match=AWAY):
            write(options(acting), TASK, [b"x"], queue_id=[1])
        with pytest.raises(BolideError, match="the topic has no writable queue 7"):
            write(options(acting), TASK, [b"x"], queue_id=[7])
        write(options(acting), TASK, [b"x"], queue_id=[0])
        assert other.stored.keys() == {("T", 0)}
    assert sends(acting) == 0


@pytest.mark.parametrize("acts", [True, False])
def test_a_read_only_topic_refuses_rows_at_once(acting: ActingSet, acts: bool) -> None:
    acting.acting, acting.away, acting.perm = acts, not acts, 4
    with pytest.raises(BolideError, match="the topic has no writable queue: check its permission"):
        write({**options(acting), "deliveryTimeoutMs": "600000"}, TASK, [b"x"])
