"""Makes dead letters of a group's messages."""

from __future__ import annotations

import asyncio
from typing import Any

from bolide.client import RetryLater
from proof.kit.waiting import PROCESS_PATIENCE
from tests.client.patient import PushConsumer

GROUP = "Failing"


async def bury(namesrv: str, count: int, topic: str = "T", group: str = GROUP) -> None:
    """Consume with a listener that refuses everything at its first attempt, until all are dead letters."""
    refused: set[str] = set()
    over = asyncio.Event()

    async def refuse(message: Any) -> None:
        refused.add(message.message_id)
        if len(refused) == count:
            over.set()
        raise RetryLater(1)

    consumer = PushConsumer(group, namesrv, max_reconsume_times=0, start_from="first")
    consumer.subscribe(topic, "*", refuse)
    async with consumer:
        await asyncio.wait_for(over.wait(), PROCESS_PATIENCE)
        assert await consumer.drain(300), "a broker takes back every one"


def failed_sends(log: str) -> int:
    """How many sends of messages a client's log calls failed; where it was the answer, there is a letter more."""
    return log.count("could not be sent")
