"""The load of one Bolide client, as a program of its own: what it did in how much time, as a line of JSON.

    python bench/loads/client_load.py CASE NAMESRV TOPIC SECONDS COUNT

It imports nothing but the client, so it measures that of any environment whose Python runs it. The first third of the
time, or of the messages, warms up and is not counted. Processor time is that of the whole process, user and kernel.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

from bolide.client import Message, Producer, PushConsumer, ReceivedMessage

BODY = b"b" * 128
IN_FLIGHT = 256
AT_ONCE = 1000
"""Messages of one `send_many`, and of one batch that fills a topic."""


class Meter:
    """Counts events between the end of the warm-up and the end."""

    def __init__(self) -> None:
        self.count = 0
        self._counted = 0
        self._began = 0.0
        self._cpu = 0.0

    def begin(self) -> None:
        """The warm-up is over."""
        self._counted, self._began, self._cpu = self.count, time.perf_counter(), time.process_time()

    def end(self) -> dict[str, float]:
        """What was counted since then, and `all` from the first on."""
        seconds, cpu = time.perf_counter() - self._began, time.process_time() - self._cpu
        count = self.count - self._counted
        each = cpu / max(1, count) * 1e6
        return {"count": count, "all": self.count, "seconds": seconds, "rate": count / seconds, "cpu_us": each}


async def one_by_one(producer: Producer, topic: str, meter: Meter) -> None:
    """Each message waits for the answer to the one before."""
    while True:
        await producer.send(Message(topic, BODY))
        meter.count += 1


async def in_flight(producer: Producer, topic: str, meter: Meter) -> None:
    """Always so many messages on their way."""
    await asyncio.gather(*(one_by_one(producer, topic, meter) for _ in range(IN_FLIGHT)))


async def many(producer: Producer, topic: str, meter: Meter) -> None:
    """Lists of messages."""
    while True:
        outcomes = await producer.send_many([Message(topic, BODY) for _ in range(AT_ONCE)])
        failed = next((outcome for outcome in outcomes if isinstance(outcome, BaseException)), None)
        if failed is not None:
            raise failed
        meter.count += len(outcomes)


SENDS: dict[str, Callable[[Producer, str, Meter], Awaitable[None]]] = {
    "loop": one_by_one,
    "in_flight": in_flight,
    "many": many,
}


async def send(case: str, namesrv: str, topic: str, seconds: float) -> dict[str, float]:
    """Send for so many seconds, a third of them to warm up."""
    meter = Meter()
    async with Producer(f"bench_{case}", namesrv, instance_name=case) as producer:
        await producer.send(Message(topic, BODY))
        work = asyncio.ensure_future(SENDS[case](producer, topic, meter))
        await asyncio.wait([work], timeout=seconds / 3)
        meter.begin()
        await asyncio.wait([work], timeout=seconds * 2 / 3)
        figures = meter.end()
        if work.done():
            await work
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    return figures


async def fill(namesrv: str, topic: str, count: int) -> dict[str, float]:
    """Store so many messages in the four queues of a topic, in turns."""
    async with Producer("bench_fill", namesrv) as producer:
        await producer.send(Message(topic, BODY))
        for _ in range(0, count, AT_ONCE):
            await producer.send_batch([Message(topic, BODY) for _ in range(AT_ONCE)])
    return {"count": count}


async def consume(case: str, namesrv: str, topic: str, count: int) -> dict[str, float]:
    """Consume so many messages from the oldest on, a third of them to warm up."""
    meter = Meter()
    warm = count // 3
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    figures: dict[str, float] = {}

    def took(number: int) -> None:
        before = meter.count
        meter.count = now = before + number
        if before < warm <= now:
            meter.begin()
        elif before < count <= now:
            figures.update(meter.end())
            loop.call_soon_threadsafe(over.set)

    async def one(message: ReceivedMessage) -> None:
        assert message.body
        took(1)

    def one_in_a_thread(message: ReceivedMessage) -> None:
        assert message.body
        took(1)

    async def several(messages: list[ReceivedMessage]) -> None:
        assert all(message.body for message in messages)
        took(len(messages))

    group = f"bench_{case}_{time.time_ns()}"
    # A plain listener runs in threads: with one of them the count needs no lock.
    async with PushConsumer(
        group, namesrv, start_from="first", concurrency=1 if case == "push_plain" else 20
    ) as consumer:
        if case == "push_lists":
            consumer.subscribe(topic, "*", several, batch=32)
        else:
            consumer.subscribe(topic, "*", one if case == "push" else one_in_a_thread)
        await asyncio.wait_for(over.wait(), 120)
    return figures


def main() -> None:
    """Run one case and print what came of it."""
    case, namesrv, topic, seconds, count = sys.argv[1:]
    if case == "fill":
        figures = asyncio.run(fill(namesrv, topic, int(count)))
    elif case in SENDS:
        figures = asyncio.run(send(case, namesrv, topic, float(seconds)))
    else:
        figures = asyncio.run(consume(case, namesrv, topic, int(count)))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
