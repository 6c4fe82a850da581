"""Finding messages, against a broker of our own."""

from __future__ import annotations

import pytest

from bolide.client import Message, MessageQueue, ResponseError
from bolide.layout.errors import MessageIdError
from bolide.layout.message_id import encode_host, offset_message_id
from bolide.testing.broker import Broker
from proof.kit.waiting import until
from tests.admin.cluster_of_one import TOPIC, clients
from tests.client.patient import PushConsumer


async def test_by_either_id_by_key_and_by_place(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        results = [await producer.send(Message(TOPIC, b"%d" % n, keys=["all", f"k{n}"])) for n in range(6)]
        for number, result in enumerate(results):
            by_unique = await admin.message_by_unique_id(TOPIC, result.message_id)
            by_offset = await admin.message_by_offset_id(result.offset_message_id)
            by_place = await admin.message_at(result.queue, result.queue_offset)
            either = [
                await admin.message(result.message_id, TOPIC),
                await admin.message(result.offset_message_id),
                await admin.message(result.offset_message_id, TOPIC),
            ]
            for found in (by_unique, by_offset, by_place, *either):
                assert found is not None
                assert (found.body, found.message_id) == (b"%d" % number, result.message_id)
        assert [message.body for message in await admin.messages_by_key(TOPIC, "k3")] == [b"3"]
        assert len(await admin.messages_by_key(TOPIC, "all")) == 6
        assert len(await admin.messages_by_key(TOPIC, "all", max_messages=2)) == 2


async def test_missing_message_is_none(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        result = await producer.send(Message(TOPIC, b"x"))
        assert await admin.message("0" * 32, TOPIC) is None
        assert await admin.message(result.message_id) is None
        assert await admin.message("what is this") is None
        assert await admin.messages_by_key(TOPIC, "nothing") == []
        assert await admin.message_at(result.queue, 99) is None
        assert (
            await admin.messages_at(MessageQueue(TOPIC, result.queue.broker_name, 1 - result.queue.queue_id), 0) == []
        )
        with pytest.raises(MessageIdError):
            await admin.message_by_offset_id("x")


async def test_a_member_processes_a_message_when_told(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        result = await producer.send(Message(TOPIC, b"again"))
        message = await admin.message(result.message_id, TOPIC)
        assert message is not None
        seen: list[bytes] = []
        consumer = PushConsumer("direct", bolide_broker.namesrv_addr, start_from="last")
        consumer.subscribe(TOPIC, "*", lambda received: seen.append(received.body))
        async with consumer:
            await until(lambda: len(consumer.assignment()) > 0, "a queue")
            done = await admin.consume_directly("direct", consumer.client_id, message)
            assert (done.consume_result, seen[-1:]) == ("CR_SUCCESS", [b"again"])
            with pytest.raises(ResponseError, match="not online"):
                await admin.consume_directly("direct", "another", message)


@pytest.mark.parametrize("key", ["a\u3000b", "A\u00a042", "a\tb", "x\x85y"])
async def test_key_with_another_blank_is_found_as_it_was_sent(bolide_broker: Broker, key: str) -> None:
    async with clients(bolide_broker) as (admin, producer):
        await producer.send(Message(TOPIC, b"x", keys=[key, "second"]))
        for each in (key, "second"):
            assert [message.keys for message in await admin.messages_by_key(TOPIC, each)] == [[key, "second"]]


async def test_key_of_another_topic_with_the_same_hash_is_not_found(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        for topic in ("Aa", "BB"):
            await admin.create_topic(topic, queues=1)
            await producer.send(Message(topic, topic.encode(), keys="k"))
        assert [message.body for message in await admin.messages_by_key("Aa", "k")] == [b"Aa"]


async def test_message_of_a_broker_that_has_moved_is_found_by_its_old_id(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        result = await producer.send(Message(TOPIC, b"x"))
        stored = await admin.message(result.offset_message_id)
        assert stored is not None
        elsewhere = offset_message_id(encode_host("127.0.0.9", 1), stored.physical_offset)
        assert await admin.message(elsewhere) is None, "a record at the same offset is not the message"
        assert await admin._moved(result.offset_message_id, stored.physical_offset) is not None
