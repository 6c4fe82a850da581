"""The sending process: every kind of message at a steady rate, each outcome in a journal.

python -m proof.soak.senders NAMESRV FOLDER --rate R
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bolide.client import (
    BolideError,
    Message,
    Producer,
    ReceivedMessage,
    SendStatus,
    TransactionProducer,
    TransactionState,
)
from proof.kit.journal import Journal
from proof.soak import streams
from proof.soak.client_process import Arguments, Told, now_ms, pause, run_client
from proof.soak.events import Event, What
from proof.soak.streams import SHARES, End, Stream, body_of, read_body

MOST_OUT = 500
"""Sends without an answer above which the pace waits: the rate is meant to be far below the limit."""
TIMEOUT_S = 20.0
"""A slow machine is no fault: what is answered late counts as answered."""
REPLY_TIMEOUT_S = 30.0


class Endings:
    """The listener of the transactions: the number of a message says how its transaction ends."""

    async def execute(self, message: Message, argument: End) -> TransactionState:
        if argument is End.COMMITTED:
            return TransactionState.COMMIT
        return TransactionState.ROLLBACK if argument is End.ROLLED_BACK else TransactionState.UNKNOWN

    async def check(self, message: ReceivedMessage) -> TransactionState:
        told = read_body(message.body)
        assert told is not None
        return TransactionState.COMMIT if streams.end_of(told.number).committed else TransactionState.ROLLBACK


class Senders:
    """All producers and the next number of each stream."""

    def __init__(
        self, plain: Producer, transactions: TransactionProducer, journal: Journal, told: Told, quick: bool
    ) -> None:
        self._plain = plain
        self._transactions = transactions
        self._journal = journal
        self._told = told
        self._quick = quick
        self._next = dict.fromkeys(Stream, 0)
        self._out: set[asyncio.Task[None]] = set()
        self._ways: dict[Stream, Callable[[int], Awaitable[None]]] = {
            Stream.BATCH: self._batch,
            Stream.LEVEL: self._level,
            Stream.TIMER: self._timer,
            Stream.TRANSACTION: self._transaction,
            Stream.REQUEST: self._request,
        }

    async def begin(self, stream: Stream) -> int:
        """Start to send the next message of a stream, or the next batch; returns how many messages that is."""
        while len(self._out) >= MOST_OUT:
            await asyncio.wait(self._out, return_when=asyncio.FIRST_COMPLETED)
        count = streams.BATCH if stream is Stream.BATCH else 1
        number = self._next[stream]
        self._next[stream] += count
        task = asyncio.create_task(self._guarded(stream, number, count))
        self._out.add(task)
        task.add_done_callback(self._out.discard)
        return count

    async def finish(self) -> None:
        """Wait for every answer."""
        while self._out:
            await asyncio.wait(self._out)

    async def _guarded(self, stream: Stream, number: int, count: int) -> None:
        what = What.ACKNOWLEDGED
        try:
            way = self._ways.get(stream)
            await (self._one(stream, number) if way is None else way(number))
        except BolideError as error:
            self._told.failed(f"sends ({stream.value})", error)
            what = What.FAILED
        for each in range(number, number + count):
            self._journal.note(*Event(what, stream, each).fields)
        self._told.counts["acknowledged" if what is What.ACKNOWLEDGED else "not acknowledged"] += count

    async def _one(self, stream: Stream, number: int) -> None:
        await self._stored(self._message(stream, number))

    def _message(self, stream: Stream, number: int, due_in: float = 0.0) -> Message:
        now = now_ms()
        message = Message(
            stream.topic,
            body_of(stream, number, now, now + int(due_in * 1000)),
            keys=f"{stream.value}-{number}",
            properties={"n": str(number % 10)},
        )
        if stream is Stream.PLAIN:
            message.tags = streams.tag_of(number)
        elif stream is Stream.ORDERED:
            message.sharding_key = f"shard-{number % streams.SHARDS}"
        elif stream is Stream.LIGHT:
            message.light_queues = streams.light_users(number)
        return message

    async def _stored(self, message: Message) -> str:
        sent = await self._plain.send(message)
        if sent.status is not SendStatus.SEND_OK:
            raise NotStored(f"answered {sent.status.name}")
        return sent.recall_handle or ""

    async def _batch(self, number: int) -> None:
        messages = [self._message(Stream.BATCH, each) for each in range(number, number + streams.BATCH)]
        sent = await self._plain.send_batch(messages)
        if sent.status is not SendStatus.SEND_OK:
            raise NotStored(f"answered {sent.status.name}")

    async def _level(self, number: int) -> None:
        level = streams.level_of(number, self._quick)
        message = self._message(Stream.LEVEL, number, streams.LEVELS[level])
        message.delay_level = level
        await self._stored(message)

    async def _timer(self, number: int) -> None:
        seconds = streams.timer_seconds(number, self._quick)
        message = self._message(Stream.TIMER, number, seconds)
        message.delay = seconds
        asked = now_ms()
        handle = await self._stored(message)
        if streams.recalled(number, self._quick):
            await self._plain.recall(message.topic, handle)
            if now_ms() - asked < (seconds - 2) * 1000:  # else it may have been on its way already
                self._journal.note(*Event(What.RECALLED, Stream.TIMER, number).fields)
                self._told.counts["recalled"] += 1

    async def _transaction(self, number: int) -> None:
        message = self._message(Stream.TRANSACTION, number)
        result = await self._transactions.send_in_transaction(message, streams.end_of(number))
        if result.sent.status is not SendStatus.SEND_OK:
            raise NotStored(f"answered {result.sent.status.name}")

    async def _request(self, number: int) -> None:
        message = self._message(Stream.REQUEST, number)
        reply = await self._plain.request(message, REPLY_TIMEOUT_S)
        if reply.body != message.body:
            raise NotStored("the reply is not what was asked")
        self._told.counts["replies"] += 1


class NotStored(BolideError):
    """An answer that promises nothing."""


def schedule(count: int) -> list[Stream]:
    """The streams of `count` sends in a fixed order, each with its share, evenly spread."""
    weights = {stream: share / (streams.BATCH if stream is Stream.BATCH else 1) for stream, share in SHARES.items()}
    owed = dict.fromkeys(weights, 0.0)
    order = []
    for _ in range(count):
        for stream, weight in weights.items():
            owed[stream] += weight
        chosen = max(owed, key=lambda stream: owed[stream])
        owed[chosen] -= sum(weights.values())
        order.append(chosen)
    return order


async def send(given: Arguments, told: Told) -> None:
    """Send until told to stop."""
    journal = Journal(given.folder / "sent.journal")
    plain = Producer("soak-senders", given.namesrv, timeout=TIMEOUT_S, trace=True, instance_name="senders")
    transactions = TransactionProducer(
        "soak-transactions", given.namesrv, Endings(), timeout=TIMEOUT_S, instance_name="senders"
    )
    async with plain, transactions:
        senders = Senders(plain, transactions, journal, told, given.quick)
        order = schedule(500)
        loop = asyncio.get_running_loop()
        due = loop.time()
        turn = 0
        while await pause(due - loop.time(), told):
            count = await senders.begin(order[turn % len(order)])
            turn += 1
            due = max(due, loop.time() - 1.0) + count / given.rate  # what a stall missed is not made up for
        await senders.finish()
        told.counts["done"] = 1
        await told.leave.wait()
    journal.close()


if __name__ == "__main__":
    run_client(__doc__ or "", send)
