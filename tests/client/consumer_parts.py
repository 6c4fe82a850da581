"""A push consumer at the start of everything, with a short long poll."""

from __future__ import annotations

from typing import Any

from bolide.client import PushConsumer
from tests.client.scripted_broker import ScriptedBroker


def consumer(broker: ScriptedBroker, group: str = "G", **more: Any) -> PushConsumer:
    return PushConsumer(group, broker.address, start_from="first", suspend=0.5, **more)
