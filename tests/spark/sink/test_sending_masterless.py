"""Sends to a set of brokers of which only a slave is left: none goes to the slave."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bolide.errors import BolideError
from bolide.remoting import codes
from bolide.spark.sink.messages import Task
from tests.client.scripted_broker import ScriptedBroker
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
