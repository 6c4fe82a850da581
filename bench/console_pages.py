"""How long the pages of `bolide console` take with many topics and groups: `python -m bench.console_pages`.

Broker and console share a process, so a figure is the console's time and the broker's. First each answer of the broker
is asked again for every page; then answers are kept as in service, with ten pages a second.
"""

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from starlette.testclient import TestClient

from bolide.admin import Admin
from bolide.client import Message, MessageQueue, Producer
from bolide.console.app import Console, ConsoleOptions
from bolide.testing.broker import Broker

QUEUES = 4
LIMIT_MS = 200.0
PATHS = {
    "cluster": "/",
    "topics": "/topics?page={page}",
    "topics, search": "/topics?q=topic-{number}",
    "topic": "/topics/show?topic=topic-{number}",
    "groups": "/groups?page={page}",
    "groups by lag": "/groups?sort=lag&page={page}",
    "group": "/groups/show?group=group-{number}",
    "messages": "/messages?topic=topic-{number}",
    "dead letters": "/dead-letters",
    "waiting": "/waiting",
    "stores": "/stores",
    "settings": "/settings?show=all",
}


async def fill(namesrv: str, topics: int, groups: int) -> None:
    """Topics with a message each, and groups that read four of them."""
    gate = asyncio.Semaphore(32)
    async with Admin(namesrv) as admin, Producer("bench", namesrv) as producer:

        async def topic(number: int) -> None:
            async with gate:
                await admin.create_topic(f"topic-{number}", queues=QUEUES)
                await producer.send(Message(f"topic-{number}", b"x" * 100))

        async def group(number: int) -> None:
            async with gate:
                await admin.create_group(f"group-{number}")
                for each in range(4):
                    name = f"topic-{(number * 4 + each) % topics}"
                    for queue in range(QUEUES):
                        await admin.set_group_offset(f"group-{number}", MessageQueue(name, "broker-a", queue), 0)

        await asyncio.gather(*(topic(number) for number in range(topics)))
        await asyncio.gather(*(group(number) for number in range(groups)))


def main() -> int:
    """Run it; 1 when a page is slower than it may be with answers kept."""
    parser = argparse.ArgumentParser(prog="bench.console_pages", description=__doc__)
    parser.add_argument("--topics", type=int, default=2_000)
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=100, help="pages of each kind")
    given = parser.parse_args()
    now = 0.0
    slow = 0
    with Broker() as broker:
        asyncio.run(fill(broker.namesrv_addr, given.topics, given.groups))
        console = Console(ConsoleOptions(broker.namesrv_addr, clock=lambda: now))
        with TestClient(console.app(), base_url="http://127.0.0.1") as client:
            for title, step in (("nothing kept", 100.0), ("answers kept, ten pages a second", 0.1)):
                print(f"{given.topics:,} topics, {given.groups:,} groups, {title}")
                for name, path in PATHS.items():
                    took = []
                    for number in range(given.rounds):
                        now += step
                        asked = path.format(number=number % given.groups, page=number % 10 + 1)
                        began = time.perf_counter()
                        answer = client.get(asked)
                        took.append((time.perf_counter() - began) * 1000)
                        assert answer.status_code == 200, (asked, answer.status_code)
                    p95 = statistics.quantiles(took, n=20)[-1]
                    slow += step < 1 and p95 > LIMIT_MS
                    print(f"  {name:16} median {statistics.median(took):7.1f} ms   p95 {p95:7.1f} ms")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
