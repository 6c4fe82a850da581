"""Consumers of a run: members of groups that write down each message they are given."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import defaultdict
from typing import Any, Final

from bolide.client import PullConsumer, PushConsumer, ReceivedMessage, RetryLater, World, sql
from proof.ledger import Content, Group, Ledger, Place, Queue, number_of

OWN: Final = ("n",)
"""Properties that producers of a run set."""


def content_of(message: ReceivedMessage) -> Content:
    """What a consumer sees of a message, as the ledger wants it."""
    found = message.properties
    properties = tuple(sorted((name, found[name]) for name in OWN if name in found))
    return Content(message.topic, message.body, message.tags, " ".join(message.keys), properties)


def place_of(message: ReceivedMessage) -> Place:
    """The queue and offset that a message was read from."""
    queue = message.queue
    return Place(Queue(queue.broker_name, queue.topic, queue.queue_id), message.queue_offset)


class Failing:
    """Which messages a group refuses, and how often: by chance, the same for all members."""

    def __init__(self, seed: int, group: str, part: float) -> None:
        self._name = f"{seed} {group}"
        self._part = part
        self._told: dict[int, int] = defaultdict(int)

    def refuses(self, number: int | None) -> bool:
        """Whether the listener fails this time."""
        if number is None or self._part == 0.0:
            return False
        chance = random.Random(f"{self._name} {number}")
        times = chance.randint(1, 3) if chance.random() < self._part else 0
        self._told[number] += 1
        return self._told[number] <= times


class Member:
    """One consumer process of a group."""

    def __init__(self, name: str, group: Group, kind: str, ledger: Ledger, failing: Failing, most_retries: int) -> None:
        self.name = name
        self.group = group
        self.kind = kind
        self._ledger = ledger
        self._failing = failing
        self._most_retries = most_retries
        self.count = 0

    async def start(self, namesrv: str, world: World) -> None:
        """Join the group, and consume as long as the process lives."""
        if self.kind == "pull":
            await self._poll(PullConsumer(self.group.name, namesrv, start_from="first", world=world))
            return
        options: dict[str, Any] = {"max_reconsume_times": self._most_retries} if self.kind == "push" else {}
        push = PushConsumer(
            self.group.name,
            namesrv,
            start_from="first",
            model="broadcasting" if self.group.broadcast else "clustering",
            orderly=self.group.orderly,
            world=world,
            **options,
        )
        expression = sql("n > 4") if self.kind == "filtered" else "*"
        for topic in self.group.topics:
            push.subscribe(topic, expression, self._listen_soon if self.kind == "push" else self._listen)
        await push.start()

    def _listen(self, message: ReceivedMessage) -> None:
        """A plain listener: it runs in a thread."""
        seen = self._ledger.consumed(self.group.name, self.name, place_of(message), content_of(message))
        refuses = self._failing.refuses(number_of(message.body))
        self._ledger.listened(seen, not refuses)
        self.count += 1
        if refuses:
            raise RetryLater(1)

    async def _listen_soon(self, message: ReceivedMessage) -> None:
        """An async listener that takes a moment."""
        seen = self._ledger.consumed(self.group.name, self.name, place_of(message), content_of(message))
        await asyncio.sleep(0.001 * (seen.number % 50))
        refuses = self._failing.refuses(number_of(message.body))
        self._ledger.listened(seen, not refuses)
        self.count += 1
        if refuses:
            raise RetryLater(1 + seen.number % 2)

    async def _poll(self, pull: PullConsumer) -> None:
        for topic in self.group.topics:
            pull.subscribe(topic)
        await pull.start()
        while True:
            with contextlib.suppress(OSError):
                for message in await pull.poll(5.0):
                    seen = self._ledger.consumed(self.group.name, self.name, place_of(message), content_of(message))
                    self._ledger.listened(seen, True)
                    self.count += 1
