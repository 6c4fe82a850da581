"""Requests and answers between Bolide's clients at a Bolide broker."""

from __future__ import annotations

import asyncio

import pytest

from bolide.client import Message, MessageRefused, ReceivedMessage, ResponseError
from bolide.client.instance.request_reply import Replies, received_reply
from bolide.errors import RequestTimeout
from bolide.layout.message_id import encode_host
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.remoting.headers.reply import ReplyMessageRequestHeader
from bolide.testing.broker import Broker
from proof.kit.waiting import PATIENCE
from tests.client.patient import Producer, PushConsumer
from tests.client.scripted_broker import ScriptedBroker


async def test_a_request_is_answered() -> None:
    refused: list[Exception] = []
    with Broker() as broker:
        namesrv = broker.namesrv_addr
        consumer = PushConsumer("C", namesrv, start_from="first", instance_name="other")

        async def answer(message: ReceivedMessage) -> None:
            try:
                await consumer.reply_to(message, message.body.upper())
            except MessageRefused as error:
                refused.append(error)

        consumer.subscribe("Questions", "*", answer)
        async with consumer, Producer("P", namesrv) as producer:
            answers = await asyncio.gather(
                *(producer.request(Message("Questions", b"question %d" % number), 60) for number in range(8))
            )
            assert [message.body for message in answers] == [b"QUESTION %d" % number for number in range(8)]
            assert {message.topic for message in answers} == {"DefaultCluster_REPLY_TOPIC"}
            assert answers[0].get_property("PUSH_REPLY_TIME")
            await producer.send(Message("Questions", b"no question"))
            big = await producer.request(Message("Questions", b"x" * 10_000), 60)
            assert big.body == b"X" * 10_000
            assert producer._sender.instance.replies.waiting == {}
    assert len(refused) == 1 and "request()" in str(refused[0])


async def test_request_without_reply_times_out() -> None:
    with Broker() as broker:
        namesrv = broker.namesrv_addr
        got: asyncio.Queue[ReceivedMessage] = asyncio.Queue()
        consumer = PushConsumer("C", namesrv, start_from="first", instance_name="other")
        consumer.subscribe("Questions", "*", got.put)
        async with consumer, Producer("P", namesrv) as producer:
            # Only the answer is waited for below: routes, connections and the consumer's first round are over.
            await producer.send(Message("Questions", b"no question"))
            assert (await asyncio.wait_for(got.get(), PATIENCE)).body == b"no question"
            with pytest.raises(RequestTimeout, match="no response"):
                await producer.request(Message("Questions", b"?"), 1.5)
            late = await asyncio.wait_for(got.get(), PATIENCE)
            await consumer.reply_to(late, b"too late")  # taken and dropped
            assert producer._sender.instance.replies.waiting == {}
            await producer.close()
            with pytest.raises(ResponseError):
                await consumer.reply_to(late, b"the asker is gone")


def pushed(**fields: object) -> Command:
    """An answer as a broker pushes it; the sys flag is the sender's and says nothing of the hosts."""
    given: dict[str, object] = {
        "producer_group": "P", "topic": "T", "default_topic": "TBW102", "default_topic_queue_nums": 4, "queue_id": 1,
        "sys_flag": 0, "born_timestamp": 5, "flag": 7, "born_host": "[2001:db8::1]:5", "store_host": "/10.0.0.1:10911",
        "store_timestamp": 6, "properties": "CORRELATION_ID\x01C\x02", "reconsume_times": 2,
    }  # fmt: skip
    header = ReplyMessageRequestHeader(**{**given, **fields})  # type: ignore[arg-type]  # whatever a test gives
    return make_request(codes.PUSH_REPLY_MESSAGE_TO_CLIENT, 1, header.to_ext(), b"body")


def test_a_pushed_answer_is_a_message() -> None:
    message = received_reply(pushed())
    assert (message.topic, message.queue_id, message.body) == ("T", 1, b"body")
    assert (message.record.flag, message.record.reconsume_times) == (7, 2)
    assert (message.record.born_timestamp, message.record.store_timestamp) == (5, 6)
    assert message.record.born_host == encode_host("2001:db8::1", 5)
    assert message.record.store_host == encode_host("10.0.0.1", 10911)
    assert message.get_property("CORRELATION_ID") == "C"


def test_a_pushed_answer_that_cannot_be_read_is_refused() -> None:
    assert Replies().arrived(pushed(properties="x" * 40_000)).code == codes.SYSTEM_ERROR


async def test_a_request_that_is_not_stored_in_time_fails_as_its_send_does(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        await producer.send(Message("T", b"the route is known"))
        broker.script[codes.SEND_MESSAGE_V2] = lambda command: None
        with pytest.raises(RequestTimeout, match="did not answer within the time allowed"):
            await producer.request(Message("T", b"?"), 0.5)
