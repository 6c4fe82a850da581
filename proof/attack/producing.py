"""A producer process: plain sends, batches, delays, timers, transactions and ordered lanes, all at once.

    python -m proof.attack.producing '{"name": "producer-1", "namesrv": "...", ...}'

It sends until its standard input says "quiet", answers checks of transactions until that ends, and then closes.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bolide.client import (
    BolideError,
    Message,
    MessageQueue,
    NoQueue,
    Producer,
    ReceivedMessage,
    ResponseError,
    Retry,
    SendResult,
    SendStatus,
    TooFast,
    TransactionProducer,
    TransactionState,
)
from bolide.remoting import codes
from proof.attack import journal
from proof.attack.servers import LEVELS
from proof.kit.journal import Journal

TOPICS: Final = ("plain", "batch", "delay", "timer", "trans", "orders")
QUEUES: Final = 4
TIMEOUT: Final = 6.0
BURSTS: Final = (1, 1, 1, 8)
"""Numbers of messages that are sent to an ordered queue at the same time."""
TAGS: Final = ("a", "b", "c", "")
REFUSALS: Final = frozenset(
    {codes.SYSTEM_BUSY, codes.SERVICE_NOT_AVAILABLE, codes.NO_PERMISSION, codes.TOPIC_NOT_EXIST, codes.MESSAGE_ILLEGAL}
)
"""Answers by which a broker says that it does not keep the message."""
NOBODY_KNOWS: Final = ("the log could not be synced", "this broker is no longer the master")
"""Such a refusal promises less: the record may be there after the restart, or at the replica that is the new master."""


@dataclass
class Setup:
    """What the process is told."""

    name: str
    namesrv: str
    journal: str
    seed: int
    first: int
    """Its first message number; the others follow in steps of `stride`."""
    stride: int
    pause: float
    """Mean seconds between two messages of one task."""
    tasks: int = 3


class Decider:
    """The listener of transactions: some say at once how they end, the others when they are asked."""

    def execute(self, message: Message, argument: Any) -> TransactionState:
        number = int(argument)
        return TransactionState.UNKNOWN if number // 7 % 4 == 0 else self._state(number)

    def check(self, message: ReceivedMessage) -> TransactionState:
        return self._state(int(message.body[1:24].partition(b"#")[0]))

    def _state(self, number: int) -> TransactionState:
        return TransactionState.COMMIT if journal.commits(number) else TransactionState.ROLLBACK


class Traffic:
    """The tasks of one process, and what they share: the journal and the next number."""

    def __init__(self, setup: Setup, producer: Producer, sender: TransactionProducer) -> None:
        self.setup = setup
        self.producer = producer
        self.sender = sender
        self.journal = Journal(Path(setup.journal))
        self.random = random.Random(setup.seed)
        self.quiet = asyncio.Event()
        self._next = setup.first

    def number(self) -> int:
        """The next message's number."""
        taken = self._next
        self._next += self.setup.stride
        return taken

    def message(self, topic: str, *, kind: str = "plain", due: float = 0.0, lane: str = "", **more: Any) -> Message:
        """Make a message and note that it is about to be sent. `more` are arguments of `Message`."""
        number = self.number()
        chance = self.random
        size = chance.choice((0, 20, 200, 200, 1000, 6000)) if chance.random() < 0.98 else 100_000
        tags, keys = chance.choice(TAGS), f"k{number}"
        properties = {"n": str(chance.randrange(100))}
        self.journal.note(journal.SEND, number, topic, size, tags, keys, properties, kind, due, lane)
        body = journal.body(number, size)
        return Message(topic, body, tags=tags, keys=keys, properties=properties, **more)

    def stored(self, numbers: list[int], result: SendResult, *, half: bool = False) -> None:
        """Note the answer to a send."""
        if result.status is not SendStatus.SEND_OK:
            self.journal.note(journal.UNKNOWN, numbers, result.status.name)
        elif half:
            self.journal.note(journal.DONE, numbers, "", "", 0, 0)
        else:
            queue = result.queue
            self.journal.note(
                journal.DONE, numbers, queue.broker_name, queue.topic, queue.queue_id, result.queue_offset
            )

    def failed(self, numbers: list[int], error: BaseException) -> None:
        """Note that a send failed: surely not stored, or perhaps."""
        why = f"{type(error).__name__}: {error}"
        cause = error.__cause__ if isinstance(error.__cause__, BolideError) else error
        refused = isinstance(cause, NoQueue | TooFast) or (
            isinstance(cause, ResponseError) and cause.code in REFUSALS and not cause.remark.startswith(NOBODY_KNOWS)
        )
        self.journal.note(journal.REFUSED if refused else journal.UNKNOWN, numbers, why[:300])
        if not isinstance(error, BolideError | TimeoutError):
            self.journal.note(journal.FAILED, f"{self.setup.name}: {why}")

    async def pause(self) -> None:
        """Wait a random time; end early when it is time to be quiet."""
        await self._sleep(self.random.expovariate(1 / self.setup.pause))

    async def _sleep(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self.quiet.wait(), seconds)
        except TimeoutError:
            return

    async def send(self, message: Message, queue: MessageQueue | None = None) -> None:
        """Send one message, and rest for a moment when that failed."""
        number = number_of(message)
        try:
            self.stored([number], await self.producer.send(message, queue=queue))
        except Exception as error:  # noted as it is; anything but a BolideError is a finding of its own
            self.failed([number], error)
            await self._sleep(0.2)

    # -- kinds of traffic

    async def plain(self) -> None:
        """Single messages to the next queue."""
        while not self.quiet.is_set():
            await self.send(self.message("plain"))
            await self.pause()

    async def batches(self) -> None:
        """A few messages in one request."""
        while not self.quiet.is_set():
            messages = [self.message("batch") for _ in range(self.random.randint(1, 8))]
            numbers = [number_of(message) for message in messages]
            try:
                self.stored(numbers, await self.producer.send_batch(messages))
            except Exception as error:  # as in `send`
                self.failed(numbers, error)
                await self._sleep(0.2)
            await self.pause()

    async def delays(self) -> None:
        """Delay levels, and delays of any length."""
        levels = [float(level.removesuffix("s")) for level in LEVELS.split()]
        while not self.quiet.is_set():
            level = self.random.randint(1, 10)
            await self.send(self.message("delay", kind="delayed", due=levels[level - 1], delay_level=level))
            await self.pause()
            seconds = self.random.randint(1, 4)
            await self.send(self.message("timer", kind="delayed", due=seconds, delay=seconds))
            await self.pause()

    async def transactions(self) -> None:
        """Half messages that commit or are rolled back, at once or when the broker asks."""
        while not self.quiet.is_set():
            message = self.message("trans", kind="half")
            number = number_of(message)
            try:
                result = await self.sender.send_in_transaction(message, number)
                self.stored([number], result.sent, half=True)
            except Exception as error:  # as in `send`
                self.failed([number], error)
                await self._sleep(0.2)
            await self.pause()

    async def lane(self, broker: str, queue: int) -> None:
        """Single messages and bursts into one queue. The messages of a burst share requests, and keep their order."""
        place = MessageQueue("orders", broker, queue)
        name = f"{self.setup.name}-{os.getpid()}-{broker}-{queue}"
        while not self.quiet.is_set():
            burst = [self.message("orders", lane=name) for _ in range(self.random.choice(BURSTS))]
            await asyncio.gather(*(self.send(message, place) for message in burst))
            await self.pause()


def number_of(message: Message) -> int:
    """The number in a body."""
    return int(message.body[1:24].partition(b"#")[0])


async def run(setup: Setup, brokers: list[str]) -> None:
    """Send until told to be quiet, then wait for the end of standard input."""
    name = f"{setup.name}@{os.getpid()}"
    producer = Producer(f"{setup.name}-group", setup.namesrv, retry=Retry(attempts=1), timeout=TIMEOUT, client_id=name)
    sender = TransactionProducer(
        "attack-trans", setup.namesrv, Decider(), retry=Retry(attempts=1), timeout=TIMEOUT, client_id=name
    )
    async with producer, sender:
        traffic = Traffic(setup, producer, sender)
        traffic.journal.note(journal.READY, setup.name)
        lines = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(setup.tasks):
                tasks.create_task(traffic.plain())
            tasks.create_task(traffic.batches())
            tasks.create_task(traffic.delays())
            tasks.create_task(traffic.transactions())
            for broker in brokers:
                tasks.create_task(traffic.lane(broker, setup.first % QUEUES))
            await lines.readline()  # "quiet", or the end of a parent that is gone
            traffic.quiet.set()
        traffic.journal.note("quiet")
        await lines.read()


def main() -> None:
    """Read the setup and run."""
    told = json.loads(sys.argv[1])
    brokers = told.pop("brokers")
    asyncio.run(run(Setup(**told), brokers))


if __name__ == "__main__":
    main()
