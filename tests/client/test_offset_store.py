"""What a store of offsets writes to brokers, and when it writes again."""

from __future__ import annotations

import asyncio

from bolide.client import MessageQueue
from bolide.client.instance import ClientInstance
from bolide.client.offset_store import BrokerOffsets
from bolide.client.options import ClientOptions
from bolide.remoting import codes
from tests.client.scripted_broker import ScriptedBroker

QUEUE = MessageQueue("T", "broker-a", 0)


def test_what_may_be_lost_is_written_again_and_what_was_answered_is_not() -> None:
    async def main(broker: ScriptedBroker) -> None:
        instance = ClientInstance.acquire(ClientOptions.of(broker.address))
        try:
            await instance.route("T")
            store = BrokerOffsets(instance, "G")

            async def persist(offset: int, wait: bool) -> None:
                store.update(QUEUE, offset)
                await store.persist([QUEUE], wait)

            await persist(5, True)
            await persist(5, True)
            await persist(9, False)
            await persist(9, False)
            await persist(5, True)  # back again: what was answered long ago says nothing
            written = broker.requests(codes.UPDATE_CONSUMER_OFFSET)
            assert [int(command.ext()["commitOffset"]) for command in written] == [5, 9, 9, 5]
            assert await store.load(QUEUE) == 5
        finally:
            await instance.release()

    with ScriptedBroker() as broker:
        asyncio.run(main(broker))
