"""Producer of the demo, a process of its own: every flight one message, 1,024 in flight, a line of progress as JSON.

    python -m demo.produce NAMESRV [--limit N] [--topic T]

Lines: {"sent": n, "acknowledged": n, "failed": n, "seconds": s}; the last has "done": true. With --journal FILE the row
numbers that were acknowledged are written there, 4 bytes each, in the order of their answers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import struct
import time
from typing import BinaryIO

from bolide.client import Message, Producer, SendResult
from demo.flights import TOPIC, Flight, flights, read_rows

IN_FLIGHT = 1024
REPORT_EVERY = 0.5


class Tally:
    """What was sent and answered so far."""

    def __init__(self, journal: BinaryIO | None) -> None:
        self.sent = 0
        self.acknowledged = 0
        self.failed = 0
        self.error = ""
        self.begin = time.monotonic()
        self.reported = 0.0
        self._journal = journal

    def answered(self, row: int, future: asyncio.Future[SendResult]) -> None:
        error = future.exception()
        if error is not None:
            self.failed += 1
            self.error = str(error)
            return
        self.acknowledged += 1
        if self._journal is not None:
            # Unbuffered: what is in the journal was acknowledged, whatever happens to this process next.
            self._journal.write(struct.pack(">I", row))

    def report(self, done: bool = False) -> None:
        now = time.monotonic()
        if not done and now - self.reported < REPORT_EVERY:
            return
        self.reported = now
        line = {
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
        properties={"time_hour": flight.time_hour, "sequence": str(flight.sequence), "tail": flight.tail or "-"},
        sharding_key=flight.sharding_key,
    )


async def produce(namesrv: str, topic: str, limit: int, journal: BinaryIO | None) -> Tally:
    """Send the first `limit` flights (0: all) and wait for every answer."""
    made = list(flights(read_rows()))
    if limit:
        made = made[:limit]
    tally = Tally(journal)
    window = asyncio.Semaphore(IN_FLIGHT)
    async with Producer("demo-producer", namesrv, max_in_flight=IN_FLIGHT, timeout=30.0) as producer:
        await producer.queues(topic)
        tally.begin = time.monotonic()
        for flight in made:
            await window.acquire()
            future = producer.submit(message_of(flight, topic))
            tally.sent += 1

            def answered(future: asyncio.Future[SendResult], row: int = flight.row) -> None:
                window.release()
                tally.answered(row, future)

            future.add_done_callback(answered)
            tally.report()
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
    journal = open(given.journal, "wb", buffering=0) if given.journal else None
    tally = asyncio.run(produce(given.namesrv, given.topic, given.limit, journal))
    if journal is not None:
        journal.close()
    raise SystemExit(0 if journal is not None or not tally.failed else 1)


if __name__ == "__main__":
    main()
