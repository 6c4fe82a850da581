"""A consumer of the demo, a process of its own: counts every flight it is given, and checks each aircraft's order.

    python -m demo.consume NAMESRV --group G --result FILE [--tags "UA || DL"] [--orderly] [--topic T]

Lines on standard output: {"assigned": queues} when its share changes, and {"consumed": n, "violations": n}. It runs
until a line arrives on standard input, closes its consumer (which stores the offsets) and writes the result: JSON with
`consumed` and `violations`, and beside it a file .rows with how often each row came.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import zlib
from pathlib import Path

import msgspec

from bolide.client import FlowControl, PushConsumer, ReceivedMessage
from demo.flights import ROWS, TOPIC

REPORT_EVERY = 0.5
BATCH = 512


class Row(msgspec.Struct):
    """What the checks need of a body."""

    row: int
    tailnum: str | None


class Checks:
    """Counts by row, and the order of each aircraft's flights."""

    def __init__(self, orderly: bool) -> None:
        self.consumed = 0
        self.violations = 0
        self.rows = bytearray(ROWS)
        self._orderly = orderly
        self._last: dict[str, int] = {}
        self._decode = msgspec.json.Decoder(Row).decode

    async def take(self, messages: list[ReceivedMessage]) -> None:
        """The listener: all messages of the list are consumed when it returns."""
        for message in messages:
            flight = self._decode(message.body)
            self.rows[flight.row] = min(self.rows[flight.row] + 1, 255)
            if self._orderly and flight.tailnum:
                sequence = int(message.get_property("sequence") or 0)
                if sequence != self._last.get(flight.tailnum, 0) + 1:
                    self.violations += 1
                self._last[flight.tailnum] = sequence
        self.consumed += len(messages)


async def told_to_stop() -> None:
    """Wait for a line (or the end) of standard input."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.readline()


def say(line: dict[str, object]) -> None:
    """One line of progress."""
    print(json.dumps(line), flush=True)


async def consume(namesrv: str, topic: str, group: str, tags: str, orderly: bool) -> Checks:
    """Consume until told to stop."""
    checks = Checks(orderly)
    consumer = PushConsumer(group, namesrv, start_from="first", orderly=orderly, flow=FlowControl(max_cached=4000))
    consumer.subscribe(topic, tags, checks.take, batch=BATCH)
    async with consumer:
        stop = asyncio.create_task(told_to_stop())
        assigned = -1
        while not stop.done():
            held = len(consumer.assignment())
            if held != assigned:
                assigned = held
                say({"assigned": assigned})
            say({"consumed": checks.consumed, "violations": checks.violations})
            await asyncio.wait([stop], timeout=REPORT_EVERY)
    return checks


def main() -> None:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("namesrv")
    parser.add_argument("--topic", default=TOPIC)
    parser.add_argument("--group", required=True)
    parser.add_argument("--result", type=Path, required=True)
    parser.add_argument("--tags", default="*")
    parser.add_argument("--orderly", action="store_true")
    given = parser.parse_args()
    checks = asyncio.run(consume(given.namesrv, given.topic, given.group, given.tags, given.orderly))
    given.result.with_suffix(".rows").write_bytes(zlib.compress(bytes(checks.rows), 1))
    given.result.write_text(json.dumps({"consumed": checks.consumed, "violations": checks.violations}))


if __name__ == "__main__":
    main()
