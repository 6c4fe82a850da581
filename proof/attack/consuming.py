"""A consumer process: a member of each group of the run.

    python -m proof.attack.consuming '{"name": "consumer-1", "namesrv": "...", ...}'

It consumes until its standard input ends. Listeners refuse some messages the first time, so that the retry
topic redelivers them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bolide.client import ConsumeResult, PushConsumer, ReceivedMessage, Selector, sql
from bolide.errors import BolideError
from proof.attack import journal
from proof.kit.journal import Journal

ALL: Final = "attack-all"
TAGGED: Final = "attack-tagged"
SQL: Final = "attack-sql"
ORDERLY: Final = "attack-orderly"
GROUPS: Final = {
    ALL: ("plain", "batch", "delay", "timer", "trans", "orders"),
    TAGGED: ("plain",),
    SQL: ("plain",),
    ORDERLY: ("orders",),
}
"""The topics of each group."""
WANTED_TAGS: Final = ("a", "b")
ABOVE: Final = 60
EXPRESSIONS: Final[dict[str, str | Selector]] = {
    TAGGED: " || ".join(WANTED_TAGS),
    SQL: sql(f"n > {ABOVE}"),
}
FIRST_REFUSED: Final = 0.05
PROPERTY: Final = "n"


def wanted(group: str, tags: str, properties: Mapping[str, str]) -> bool:
    """Whether the expression of a group takes a message."""
    if group == TAGGED:
        return tags in WANTED_TAGS
    return group != SQL or int(properties.get(PROPERTY, "0")) > ABOVE


@dataclass
class Setup:
    """What the process is told."""

    name: str
    namesrv: str
    journal: str
    seed: int


class Listening:
    """The listener of one group."""

    def __init__(self, group: str, book: Journal, chance: random.Random) -> None:
        self._group = group
        self._book = book
        self._random = chance

    async def __call__(self, message: ReceivedMessage) -> ConsumeResult:
        """Note it, consume it or refuse it, and note that."""
        serial = self._book.next_serial()
        queue = message.queue
        body = message.body
        digits = body[1:24].partition(b"#")[0]
        self._book.note(
            journal.GOT,
            serial,
            self._group,
            message.broker_name,
            queue.topic,
            queue.queue_id,
            message.queue_offset,
            int(digits) if digits.isdigit() else -1,
            message.topic,
            journal.check(body),
            message.tags,
            " ".join(message.keys),
            {PROPERTY: message.get_property(PROPERTY) or ""},
        )
        if self._random.random() < 0.02:
            await asyncio.sleep(self._random.random() * 0.2)
        # At the first delivery only: what is refused too often would be a dead letter.
        accepted = message.reconsume_times > 0 or self._random.random() >= FIRST_REFUSED
        self._book.note(journal.LISTENED, serial, accepted)
        return ConsumeResult.SUCCESS if accepted else ConsumeResult.RETRY


async def started(consumer: PushConsumer, book: Journal) -> None:
    """Start a consumer; while no broker can be reached, try again."""
    while True:
        try:
            await consumer.start()
            return
        except BolideError as error:
            book.note("waits", str(error)[:200])
            await asyncio.sleep(0.5)


async def run(setup: Setup) -> None:
    """Consume until standard input ends."""
    book = Journal(Path(setup.journal))
    chance = random.Random(setup.seed)
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with contextlib.AsyncExitStack() as stack:
        for group, topics in GROUPS.items():
            consumer = PushConsumer(
                group,
                setup.namesrv,
                start_from="first",
                orderly=group == ORDERLY,
                orderly_pause=0.2,
                suspend=5.0,
                client_id=f"{setup.name}@{os.getpid()}",
            )
            listener = Listening(group, book, chance)
            for topic in topics:
                consumer.subscribe(topic, EXPRESSIONS.get(group, "*"), listener)
            await started(consumer, book)
            stack.push_async_callback(consumer.close)
        book.note(journal.READY, setup.name)
        await lines.read()


def main() -> None:
    """Read the setup and run."""
    asyncio.run(run(Setup(**json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
