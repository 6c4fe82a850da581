"""Producer of the demo, a process of its own: every flight one message, 1,024 in flight, a line of progress as JSON.

    python -m demo.produce NAMESRV [--limit N] [--topic T]

Lines: {"sent": n, "acknowledged": n, "failed": n, "seconds": s}; the last has "done": true. With --journal FILE the row
numbers that were acknowledged are written there, 4 bytes each, in the order of their answers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import struct
import time
from typing import BinaryIO

from bolide.client import Message, Producer, SendResult
from demo.flights import TOPIC, Flight, flights, read_rows

IN_FLIGHT = 1024
REPORT_EVERY = 0.5
PAUSE = 0.5


class Tally:
    """What was sent and answered so far."""

    def __init__(self, journal: BinaryIO | None) -> None:
        self.sent = 0
        self.acknowledged = 0
        self.failed = 0
        self.error = ""
        self.again: list[Flight] = []
        self.begin = time.monotonic()
        self.reported = 0.0
        self._journal = journal

    def answered(self, flight: Flight, future: asyncio.Future[SendResult]) -> None:
        """Note the outcome of one send; what failed is to be sent again when there is a journal."""
        error = future.exception()
        if error is not None:
            self.failed += 1
            self.error = str(error)
            self.again.append(flight)
            return
        self.acknowledged += 1
        if self._journal is not None:
            # Unbuffered: what is in the journal was acknowledged, whatever happens to this process next.
            self._journal.write(struct.pack(">I", flight.row))

    def report(self, done: bool = False) -> None:
        """A line of progress, twice a second."""
        now = time.monotonic()
        if not done and now - self.reported < REPORT_EVERY:
            return
        self.reported = now
        line: dict[str, object] = {
            "sent": self.sent,
            "acknowledged": self.acknowledged,
            "failed": self.failed,
            "seconds": round(now - self.begin, 3),
        }
        if done:
            line["done"] = True
            if self.error:
                line["error"] = self.error
        print(json.dumps(line), flush=True)


def message_of(flight: Flight, topic: str) -> Message:
    """The message of a flight."""
    return Message(
        topic,
        flight.body,
        tags=flight.carrier,
        keys=flight.keys,
        properties={"time_hour": flight.time_hour, "sequence": str(flight.sequence)},
        sharding_key=flight.sharding_key,
    )


async def send_all(producer: Producer, topic: str, made: list[Flight], tally: Tally) -> None:
    """Send with a bounded number in flight; returns when every answer is there."""
    window = asyncio.Semaphore(IN_FLIGHT)
    for flight in made:
        await window.acquire()
        future = producer.submit(message_of(flight, topic))
        tally.sent += 1

        def answered(future: asyncio.Future[SendResult], flight: Flight = flight) -> None:
            window.release()
            tally.answered(flight, future)

        future.add_done_callback(answered)
        tally.report()
    for _ in range(IN_FLIGHT):
        await window.acquire()


async def produce(namesrv: str, topic: str, limit: int, journal: BinaryIO | None) -> Tally:
    """Send the first `limit` flights (0: all) and wait for every answer.

    With a journal the broker is expected to fall over: what was not acknowledged is sent again until it is, so that a
    message whose answer was lost is stored twice.
    """
    made = list(flights(read_rows()))
    if limit:
        made = made[:limit]
    tally = Tally(journal)
    async with Producer("demo-producer", namesrv, max_in_flight=2 * IN_FLIGHT, timeout=10.0) as producer:
        await producer.queues(topic)
        tally.begin = time.monotonic()
        await send_all(producer, topic, made, tally)
        while journal is not None and tally.again:
            tally.report()
            again, tally.again = tally.again, []
            await asyncio.sleep(PAUSE)
            await send_all(producer, topic, again, tally)
    tally.report(done=True)
    return tally


def main() -> None:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("namesrv")
    parser.add_argument("--topic", default=TOPIC)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--journal")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(open(given.journal, "wb", buffering=0)) if given.journal else None
        tally = asyncio.run(produce(given.namesrv, given.topic, given.limit, journal))
    if tally.again:
        raise SystemExit(f"{tally.failed:,} of {tally.sent:,} sends to {given.namesrv} failed, the last: {tally.error}")


if __name__ == "__main__":
    main()
