"""The consuming process: every kind of consumer, each message it gets in a journal.

python -m proof.soak.consumers NAMESRV FOLDER --rate R
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from bolide.client import (
    DEAD_LETTER,
    TRACE_TOPIC,
    BolideError,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
    lmq,
    sql,
)
from proof.kit.journal import Journal
from proof.soak import streams
from proof.soak.client_process import Arguments, Told, now_ms, run_client
from proof.soak.events import Event, What
from proof.soak.streams import PREFIX, READERS, Reader, Stream, read_body

IDLE_TOPIC = PREFIX + "idle"
"""Nobody sends to it, so every pull of it is held until its time is over."""
DEAD_TOPIC = f"%DLQ%{PREFIX}retry"
BY_NAME = {reader.name: reader for reader in READERS}


class Consumers:
    """The listeners: they check a message and note it."""

    def __init__(self, given: Arguments, journal: Journal, told: Told) -> None:
        self._given = given
        self._journal = journal
        self._told = told
        self._last: dict[int, int] = {}
        """By shard of the ordered messages: the highest number seen."""
        self._seen: dict[int, set[int]] = {shard: set() for shard in range(streams.SHARDS)}
        """By shard: the latest numbers, since a message may be delivered once more."""

    def note(self, reader: Reader, message: ReceivedMessage) -> int:
        """Enter a message as consumed by a reader; its number, or -1 if it is not what was sent."""
        told = read_body(message.body)
        if told is None or told.stream is not reader.stream:
            self._told.counts["changed bodies"] += 1
            self._told.last_error = f"{reader.name} got {message!r}, which was not sent so"
            return -1
        late = now_ms() - told.due_ms
        self._journal.note(*Event(What.CONSUMED, told.stream, told.number, reader, late).fields)
        self._told.counts[f"consumed ({reader.name})"] += 1
        return told.number

    def consumer(self, reader: Reader, **options: Any) -> PushConsumer:
        """A push consumer of a group of its own, which is not yet subscribed."""
        name = options.pop("group", reader.name)
        return PushConsumer(
            PREFIX + name, self._given.namesrv, start_from="first",
            **{"instance_name": f"consumer-{reader.name}", **options},
        )  # fmt: skip

    def listening(self, name: str, expression: Any = "*", **options: Any) -> PushConsumer:
        """A push consumer that takes what comes."""
        reader = BY_NAME[name]

        async def take(message: ReceivedMessage) -> None:
            self.note(reader, message)

        consumer = self.consumer(reader, **options)
        consumer.subscribe(reader.stream.topic, expression, take)
        return consumer

    def plain(self, member: int) -> PushConsumer:
        """One of the two members that share the queues of the plain topic; a third one comes and goes elsewhere."""
        return self.listening("plain", instance_name=f"consumer-plain-{member}", trace=member == 1)

    def broadcast(self, member: int) -> PushConsumer:
        """One of two that each get everything."""
        return self.listening(
            f"broadcast-{member}", model="broadcasting", group="broadcast", instance_name=f"broadcast-{member}",
            offset_folder=self._given.folder / f"offsets-{member}",
        )  # fmt: skip

    def batch(self) -> PushConsumer:
        """Gets lists of messages."""
        reader = BY_NAME["batch"]

        async def take(messages: list[ReceivedMessage]) -> int:
            for message in messages:
                self.note(reader, message)
            return len(messages)

        consumer = self.consumer(reader)
        consumer.subscribe(Stream.BATCH.topic, "*", take, batch=16)
        return consumer

    def ordered(self) -> PushConsumer:
        """Checks that the messages of a shard come in the order in which they were sent."""
        reader = BY_NAME["ordered"]

        async def take(message: ReceivedMessage) -> None:
            number = self.note(reader, message)
            if number < 0:
                return
            shard = number % streams.SHARDS
            seen = self._seen[shard]
            if number not in seen and number < self._last.get(shard, -1):
                self._told.counts["out of order"] += 1
                self._told.last_error = f"ordered {number} came after {self._last[shard]}"
            seen.add(number)
            if len(seen) > 1000:
                seen.difference_update(sorted(seen)[:500])
            self._last[shard] = max(self._last.get(shard, -1), number)

        consumer = self.consumer(reader, orderly=True)
        consumer.subscribe(Stream.ORDERED.topic, "*", take)
        return consumer

    def retry(self) -> PushConsumer:
        """Sends every message back once; then takes it, or sends it to the dead letters for good."""
        reader = BY_NAME["retry"]

        async def take(message: ReceivedMessage) -> None:
            told = read_body(message.body)
            if told is not None and message.reconsume_times == 0:
                self._told.counts["sent back"] += 1
                raise RetryLater(1)
            number = self.note(reader, message)
            if number >= 0 and streams.dead(number):
                raise RetryLater(DEAD_LETTER)

        consumer = self.consumer(reader)
        consumer.subscribe(Stream.RETRY.topic, "*", take)
        return consumer

    def light(self) -> PushConsumer:
        """Reads a light queue."""
        reader = BY_NAME["light"]

        async def take(message: ReceivedMessage) -> None:
            self.note(reader, message)

        consumer = self.consumer(reader)
        consumer.subscribe(lmq(streams.USERS[0]), "*", take, parent=Stream.LIGHT.topic)
        return consumer

    def requests(self) -> PushConsumer:
        """Answers requests with their own body."""
        reader = BY_NAME["request"]

        async def take(message: ReceivedMessage) -> None:
            if self.note(reader, message) >= 0:
                try:
                    await consumer.reply_to(message, message.body)
                except BolideError as error:
                    self._told.failed("replies", error)

        consumer = self.consumer(reader)
        consumer.subscribe(Stream.REQUEST.topic, "*", take)
        return consumer

    def counting(self, topic: str, group: str, what: str) -> PushConsumer:
        """Counts what comes, and accounts for none of it."""

        async def take(message: ReceivedMessage) -> None:
            self._told.counts[what] += 1

        consumer = PushConsumer(
            PREFIX + group, self._given.namesrv, start_from="first", instance_name=f"consumer-{group}", suspend=5.0
        )
        consumer.subscribe(topic, "*", take)
        return consumer

    async def pulling(self, name: str, topic: str) -> None:
        """Polls and commits until the process is to end."""
        reader = BY_NAME[name]
        consumer = PullConsumer(
            PREFIX + name, self._given.namesrv, start_from="first", auto_commit=False,
            instance_name=f"consumer-{name}", suspend=5.0,
        )  # fmt: skip
        consumer.subscribe(topic)
        async with consumer:
            while not self._told.leave.is_set():
                try:
                    messages = await consumer.poll(0.5)
                    for message in messages:
                        self.note(reader, message)
                    if messages:
                        await consumer.commit()
                except BolideError as error:
                    self._told.failed(f"polls ({name})", error)
                    await asyncio.sleep(0.5)


async def consume(given: Arguments, told: Told) -> None:
    """Consume until told to leave."""
    journal = Journal(given.folder / "consumed.journal")
    made = Consumers(given, journal, told)
    pushing = [
        made.plain(1), made.plain(2), made.listening("tag", "a"), made.broadcast(1), made.broadcast(2),
        made.listening("reset"), made.batch(), made.ordered(), made.listening("level"), made.listening("timer"),
        made.listening("transaction"), made.retry(), made.listening("sql", sql("n > 5")), made.light(),
        made.requests(), made.counting(IDLE_TOPIC, "idle", "consumed (idle)"),
        made.counting(TRACE_TOPIC, "trace", "consumed (trace)"),
    ]  # fmt: skip
    async with AsyncExitStack() as stack:
        for consumer in pushing:
            await stack.enter_async_context(consumer)
        told.counts["ready"] = 1
        await asyncio.gather(made.pulling("pull", Stream.PLAIN.topic), made.pulling("dead", DEAD_TOPIC))
    told.counts["done"] = 1
    journal.close()


if __name__ == "__main__":
    run_client(__doc__ or "", consume)
