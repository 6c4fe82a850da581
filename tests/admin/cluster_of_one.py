"""A broker of the test's own with an admin object, a producer, and a topic of two queues."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bolide.admin import Admin
from bolide.client import Producer
from bolide.testing.broker import Broker

TOPIC = "T"


def with_admin(broker: Broker, work: Callable[[Admin, Producer], Awaitable[None]]) -> None:
    """Run `work` on a topic `TOPIC` of two queues; afterwards no task may be left."""

    async def main() -> None:
        async with Admin(broker.namesrv_addr) as admin, Producer("P", broker.namesrv_addr) as producer:
            await admin.create_topic(TOPIC, queues=2)
            await work(admin, producer)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
