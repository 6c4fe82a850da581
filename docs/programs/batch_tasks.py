"""Tasks for a scheduler such as Airflow: one publishes the results of a run, one imports new messages."""

import asyncio
import json
from typing import Any

from bolide.client import Message, PullConsumer
from bolide.client.blocking import Producer

Rows = list[dict[str, Any]]


def publish(rows: Rows, run: str, namesrv: str = "") -> int:
    """Send one message per row, or raise an exception. The keys contain `run`, which identifies a repeated run."""
    messages = [
        Message("Invoices", json.dumps(row).encode(), keys=f"{run}-{number}") for number, row in enumerate(rows)
    ]
    with Producer("nightly", namesrv) as producer:
        return len(producer.send_many(messages))


async def store(rows: Rows) -> None:
    """Write to your database here. A row may arrive twice."""


async def _take(namesrv: str) -> int:
    consumer = PullConsumer("nightly-import", namesrv, start_from="first", auto_commit=False)
    taken = 0
    async with consumer:
        await consumer.assign(await consumer.queues("Invoices"))
        while any((await consumer.lag()).values()):
            rows = [json.loads(message.body) for message in await consumer.poll(1.0)]
            await store(rows)
            await consumer.commit()  # after the work: the next run repeats uncommitted messages
            taken += len(rows)
    return taken


def take(namesrv: str = "") -> int:
    """Import the messages since the last run and return the number of rows."""
    return asyncio.run(_take(namesrv))


def main(namesrv: str = "") -> None:
    print(publish([{"invoice": 1}, {"invoice": 2}], "2026-01-31", namesrv), "published")
    print(take(namesrv), "taken")
    print(take(namesrv), "taken")


if __name__ == "__main__":
    main()
