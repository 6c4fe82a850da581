"""Calls on offsets, against a broker of our own."""

from __future__ import annotations

import pytest

from bolide.client import Message, MessageQueue
from bolide.client.messages.errors import NoQueue
from bolide.testing.broker import Broker
from proof.kit.waiting import until
from tests.admin.cluster_of_one import TOPIC, clients
from tests.client.patient import Admin, PushConsumer
from tests.client.scripted_broker import ScriptedBroker


async def test_ends_times_and_stored_offsets(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        queue = (await producer.queues(TOPIC))[0]
        for _ in range(5):
            await producer.send(Message(TOPIC, b"x"), queue=queue)
        assert (await admin.begin_offset(queue), await admin.end_offset(queue)) == (0, 5)
        earliest = await admin.earliest_time(queue)
        assert earliest > 0
        assert await admin.offset_at(queue, earliest) == 0
        await admin.create_group("G")
        await admin.set_group_offset("G", queue, 3)
        assert await admin.group_offset("G", queue) == 3
        other = MessageQueue(TOPIC, queue.broker_name, 1)
        assert await admin.end_offset(other) == 0


async def test_clone_copies_offsets_of_a_group(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        queues = await producer.queues(TOPIC)
        for _ in range(6):
            await producer.send(Message(TOPIC, b"x"))
        for group in ("G", "H"):
            await admin.create_group(group)
        for offset, queue in enumerate(queues, 1):
            await admin.set_group_offset("G", queue, offset)
        await admin.clone_offsets("G", "H", TOPIC)
        assert [await admin.group_offset("H", queue) for queue in queues] == [1, 2]


async def test_a_group_that_is_not_online_is_reset_in_the_store(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        queues = await producer.queues(TOPIC)
        for _ in range(6):
            await producer.send(Message(TOPIC, b"x"))
        await admin.create_group("G")
        assert await admin.reset_offset("G", TOPIC, "last") == dict.fromkeys(queues, 3)
        assert [await admin.group_offset("G", queue) for queue in queues] == [3, 3]
        earliest = min([await admin.earliest_time(queue) for queue in queues])
        assert await admin.reset_offset("G", TOPIC, earliest) == dict.fromkeys(queues, 0)


async def test_a_group_that_runs_reads_again_from_a_time(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        seen: list[bytes] = []
        first = await producer.send(Message(TOPIC, b"0"))
        for number in range(1, 6):
            await producer.send(Message(TOPIC, b"%d" % number))
        consumer = PushConsumer("G", bolide_broker.namesrv_addr, start_from="first")
        consumer.subscribe(TOPIC, "*", lambda message: seen.append(message.body))
        async with consumer:
            await until(lambda: len(seen) == 6, "six messages")
            start = await admin.earliest_time(first.queue)
            assert set((await admin.reset_offset("G", TOPIC, start)).values()) == {0}
            await until(lambda: len(seen) == 12, "all six again")


async def test_while_a_master_is_gone_its_replica_is_asked_and_changes_are_refused() -> None:
    with ScriptedBroker() as broker:
        broker.addresses = {"2": "127.0.0.1:1", "1": broker.address}
        for _ in range(2):
            broker.store("T", 0, b"x", "")
        queue = MessageQueue("T", "broker-a", 0)
        async with Admin(broker.address) as admin:
            assert (await admin.begin_offset(queue), await admin.end_offset(queue)) == (0, 2)
            assert await admin.group_offset("G", queue) == -1
            with pytest.raises(NoQueue, match="no master"):
                await admin.set_group_offset("G", queue, 1)
