"""What a store of offsets writes to brokers, and when it writes again."""

from __future__ import annotations

import asyncio

from bolide.client import MessageQueue
from bolide.client.consuming.offset_store import BrokerOffsets
from bolide.client.instance.instance import ClientInstance
from bolide.client.instance.options import ClientOptions
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
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


def test_the_progress_that_a_pull_carried_does_not_replace_what_was_stored_for_certain() -> None:
    async def main(broker: ScriptedBroker) -> None:
        instance = ClientInstance.acquire(ClientOptions.of(broker.address))
        try:
            await instance.route("T")
            store = BrokerOffsets(instance, "G")
            store.update(QUEUE, 4)
            assert store.carry(QUEUE) == 4
            store.update(QUEUE, 25)

            def late(command: Command) -> Command:
                """The broker's thread for pulls stores what the pull carried after the first commit."""
                broker.script[codes.UPDATE_CONSUMER_OFFSET] = broker.on_update_consumer_offset
                broker.on_update_consumer_offset(command)
                broker.offsets["G", "T", 0] = 4
                return make_response(command, codes.SUCCESS)

            broker.script[codes.UPDATE_CONSUMER_OFFSET] = late
            await store.persist([QUEUE], True)
            assert broker.offsets["G", "T", 0] == 25
            assert len(broker.requests(codes.UPDATE_CONSUMER_OFFSET)) == 2

            store.update(QUEUE, 30)
            assert store.carry(QUEUE) == 30
            store.update(QUEUE, 31)
            store.carried(QUEUE)  # answered: there is nothing to look for
            asked = len(broker.requests(codes.QUERY_CONSUMER_OFFSET))
            await store.persist([QUEUE], True)
            assert len(broker.requests(codes.QUERY_CONSUMER_OFFSET)) == asked
        finally:
            await instance.release()

    with ScriptedBroker() as broker:
        asyncio.run(main(broker))
