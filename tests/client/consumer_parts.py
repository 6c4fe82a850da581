"""Consumers that start at the first message and have a short long poll, and the two queues that they read."""

from __future__ import annotations

from typing import Any

from bolide.client import MessageQueue
from tests.client.patient import PullConsumer, PushConsumer
from tests.client.scripted_broker import ScriptedBroker

Q0, Q1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


def fill(broker: ScriptedBroker, count: int) -> None:
    """Store messages in both queues in turn."""
    broker.on_loop(lambda: [broker.store("T", number % 2, b"%d" % number, "") for number in range(count)])


def consumer(broker: ScriptedBroker, group: str = "G", **more: Any) -> PushConsumer:
    return PushConsumer(group, broker.address, start_from="first", suspend=0.5, **more)


def pull_consumer(broker: ScriptedBroker, **more: Any) -> PullConsumer:
    return PullConsumer("G", broker.address, start_from="first", suspend=0.5, **more)
