"""A broker of the test's own with an admin object, a producer, and a topic of two queues."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bolide.testing.broker import Broker
from tests.client.patient import Admin, Producer

TOPIC = "T"


@asynccontextmanager
async def clients(broker: Broker) -> AsyncIterator[tuple[Admin, Producer]]:
    """Create the topic `TOPIC` with two queues. Afterwards no task may be left."""
    async with Admin(broker.namesrv_addr) as admin, Producer("P", broker.namesrv_addr) as producer:
        await admin.create_topic(TOPIC, queues=2)
        yield admin, producer
    assert len(asyncio.all_tasks()) == 1
