"""Dead letters as a group makes them: its listener rejects every message."""

from __future__ import annotations

import asyncio

from bolide.client import DEAD_LETTER, Message, MessageQueue, PullConsumer, ReceivedMessage, RetryLater
from bolide.client.messages.errors import TopicNotFound
from bolide.layout.names import DLQ_PREFIX
from bolide.testing.broker import Broker
from proof.kit.waiting import PATIENCE, until_answered
from tests.client.patient import Admin, Producer, PushConsumer


async def bury(broker: Broker, group: str, *messages: Message) -> list[ReceivedMessage]:
    """Send messages, and return the dead letters of the group once it has rejected all of them."""
    topic = DLQ_PREFIX + group

    async def reject(message: ReceivedMessage) -> None:
        raise RetryLater(DEAD_LETTER)

    async with Admin(broker.namesrv_addr) as admin, Producer("P", broker.namesrv_addr) as producer:

        async def count() -> int:
            try:
                return sum(queue.end_offset - queue.begin_offset for queue in await admin.topic_stats(topic))
            except TopicNotFound:
                return 0

        before = await count()
        for message in messages:
            await producer.send(message)
        consumer = PushConsumer(group, broker.namesrv_addr, start_from="first", concurrency=1)
        for sent in {message.topic for message in messages}:
            consumer.subscribe(sent, "*", reject)
        async with consumer:
            await until_answered(count, before + len(messages))
        found: list[ReceivedMessage] = []
        while len(found) < before + len(messages):
            found += await admin.messages_at(MessageQueue(topic, "broker-a", 0), len(found))
        return found


def bury_now(broker: Broker, group: str, *messages: Message) -> list[ReceivedMessage]:
    """Like `bury`, without an event loop."""
    return asyncio.run(bury(broker, group, *messages))


async def received(broker: Broker, topic: str, count: int) -> list[ReceivedMessage]:
    """The first messages of a topic."""
    found: list[ReceivedMessage] = []
    async with PullConsumer("reader", broker.namesrv_addr, start_from="first", auto_commit=False) as reader:
        await reader.assign(await reader.queues(topic))
        while len(found) < count:
            found += await asyncio.wait_for(reader.poll(), PATIENCE)
    return found


def numbered(topic: str, count: int) -> list[Message]:
    """Messages with all that a copy keeps."""
    return [
        Message(
            topic, b"%d" % n, tags="T", keys=["a", f"k{n}"], properties={"colour": "red"}, sharding_key="s", flag=n + 7
        )
        for n in range(count)
    ]
