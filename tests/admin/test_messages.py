"""Finding messages, against a broker of our own."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.client import ArgumentError, DamagedMessage, Message, MessageQueue, ResponseError
from bolide.layout.message_id import encode_host, offset_message_id
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request, make_response
from bolide.testing.broker import Broker
from proof.kit.waiting import until
from tests.admin.cluster_of_one import TOPIC, clients
from tests.admin.failing_requests import FailingAdmin
from tests.client.patient import Admin, Producer, PushConsumer


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
        with pytest.raises(ArgumentError):
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


async def moved_id(admin: Admin, producer: Producer) -> str:
    """The id of a stored message, as a broker at another address would have given it."""
    result = await producer.send(Message(TOPIC, b"x"))
    stored = await admin.message(result.offset_message_id)
    assert stored is not None
    return offset_message_id(encode_host("127.0.0.9", 1), stored.physical_offset)


@pytest.mark.parametrize("code", [codes.NO_PERMISSION, codes.SYSTEM_BUSY])
async def test_broker_that_rejects_the_request_may_have_the_message(bolide_broker: Broker, code: int) -> None:
    async with clients(bolide_broker) as (admin, producer), FailingAdmin(bolide_broker.namesrv_addr) as failing:
        elsewhere = await moved_id(admin, producer)
        assert await failing.message(elsewhere) is None
        failing.errors[codes.VIEW_MESSAGE_BY_ID] = [ResponseError("127.0.0.1:1 rejected it", code)]
        with pytest.raises(ResponseError, match="127.0.0.1:1 rejected it"):
            await failing.message(elsewhere)


class Answering(Admin):
    """Every broker responds with these bytes of its log."""

    def __init__(self, namesrv: str, body: bytes) -> None:
        super().__init__(namesrv)
        self.body = body

    async def ask(self, address: str, code: int, *arguments: Any, **more: Any) -> Command:
        if code != codes.VIEW_MESSAGE_BY_ID:
            return await super().ask(address, code, *arguments, **more)
        return make_response(make_request(code, 1), codes.SUCCESS, body=self.body)


async def test_bytes_that_are_no_record_are_not_the_message_and_a_damaged_record_is_reported(
    bolide_broker: Broker,
) -> None:
    async with clients(bolide_broker) as (admin, producer):
        result = await producer.send(Message(TOPIC, b"some text"))
        stored = await admin.message(result.offset_message_id)
        assert stored is not None
        offset = stored.physical_offset
        (address,) = (await admin.masters()).values()
        record = (await admin.ask(address, codes.VIEW_MESSAGE_BY_ID, {"offset": str(offset)})).body
        namesrv = bolide_broker.namesrv_addr
        async with Answering(namesrv, b"\0\0\1\0 in the middle of a record") as middle:
            assert await middle.message(offset_message_id(encode_host("127.0.0.9", 1), offset)) is None
        async with Answering(namesrv, record.replace(b"some text", b"same text")) as damaged:
            with pytest.raises(DamagedMessage, match="does not match its CRC"):
                await damaged._moved(result.offset_message_id, offset)
