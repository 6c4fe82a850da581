"""Getting the messages of a topic by our consumers."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from bolide.admin import Admin
from bolide.client import ReceivedMessage, TopicNotFound
from bolide.client.messages.subscription import Selector
from proof.kit.waiting import PROCESS_PATIENCE, until
from tests.client.patient import PushConsumer


async def received(
    namesrv: str, topic: str, count: int, expression: str | Selector = "*", *, group: str = "", **options: Any
) -> list[ReceivedMessage]:
    """The first `count` messages of a topic, or more when they come together, by offset and queue."""
    seen: list[ReceivedMessage] = []
    consumer = PushConsumer(group or f"{topic}-group", namesrv, **{"start_from": "first", **options})
    consumer.subscribe(topic, expression, seen.append)
    async with consumer:
        await until(lambda: len(seen) >= count, f"{count} messages of {topic}", PROCESS_PATIENCE)
    return sorted(seen, key=lambda message: (message.queue_offset, message.queue_id))


async def routed(admin: Admin, topic: str) -> None:
    """Return once the name server knows a topic that a send has made: a Java broker tells it without waiting for it."""
    deadline = time.monotonic() + PROCESS_PATIENCE
    while True:
        try:
            await admin.topic_route(topic)
        except TopicNotFound:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        else:
            return


def bodies(messages: list[ReceivedMessage]) -> list[str]:
    """What they say, sorted."""
    return sorted(message.body.decode() for message in messages)
