"""Values as bodies: JSON, structs, pydantic's models, and what does not fit."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import msgspec
import pydantic
import pytest

from bolide.client import CodecError, JsonCodec, Message, MessageRefused, ReceivedMessage
from bolide.client.messages.codec import CodecChoice, PydanticCodec, find_codec, value_of, with_body
from bolide.errors import ArgumentError
from bolide.testing.broker import Broker
from proof.kit.waiting import until
from tests.client.patient import Producer, PullConsumer, PushConsumer


class Order(msgspec.Struct):
    number: int
    what: str = "coffee"


@dataclasses.dataclass
class Payment:
    cents: int


class Guest(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(ge=0)


@pytest.mark.parametrize(
    ("choice", "value", "body"),
    [
        ("json", {"a": [1, None]}, {"a": [1, None]}),
        ("json", None, None),
        (Order, Order(7), {"number": 7, "what": "coffee"}),
        (Payment, Payment(5), {"cents": 5}),
        (Guest, Guest(name="Ada", age=36), {"name": "Ada", "age": 36}),
        (JsonCodec(list[int]), [1, 2], [1, 2]),
        (PydanticCodec(list[Guest]), [Guest(name="Ada", age=1)], [{"name": "Ada", "age": 1}]),
    ],
    ids=["object", "null", "dataclass", "struct", "pydantic", "list", "list of pydantic"],  # two workers must agree
)
def test_values_travel_as_json(choice: CodecChoice, value: Any, body: Any) -> None:
    codec = find_codec(choice)
    message = with_body(Message("T", value=value), codec)
    assert json.loads(message.body) == body
    read = value_of(message.body, codec, "it")
    assert read == value and type(read) is type(value)


def test_a_choice_that_is_none() -> None:
    assert find_codec(None) is None
    with pytest.raises(ArgumentError, match='give "json"'):
        find_codec("xml")
    bad: Any = 7
    with pytest.raises(ArgumentError, match="no encode and decode"):
        find_codec(bad)


def test_unencodable_value_is_rejected() -> None:
    with pytest.raises(MessageRefused, match="cannot be encoded"):
        with_body(Message("T", value=object()), JsonCodec())
    with pytest.raises(MessageRefused, match="give the producer a codec"):
        with_body(Message("T", value=1), None)
    with pytest.raises(MessageRefused, match="one of them"):
        with_body(Message("T", b"x", value=1), JsonCodec())


@pytest.mark.parametrize("choice", [Order, Guest, "json"])
def test_undecodable_body_is_an_error(choice: CodecChoice) -> None:
    with pytest.raises(CodecError, match="the body of it"):
        value_of(b'{"number": "x", "age": -1}' if choice != "json" else b"{", find_codec(choice), "it")
    with pytest.raises(CodecError, match="give the consumer a codec"):
        value_of(b"{}", None, "it")


async def test_values_from_a_producer_to_consumers(bolide_broker: Broker) -> None:
    namesrv = bolide_broker.namesrv_addr
    async with Producer("P", namesrv, codec=Order) as producer:
        await producer.send(Message("T", value=Order(1)))
        await producer.send_batch([Message("T", value=Order(2)), Message("T", value=Order(3))])
        await producer.send(Message("T", b'{"number":4,"what":"tea"}'))
    pushed: list[Order] = []

    async def take(messages: list[ReceivedMessage]) -> None:
        pushed.extend(message.value for message in messages)

    push = PushConsumer("Push", namesrv, start_from="first", codec=Order)
    push.subscribe("T", "*", take, batch=8)
    async with push:
        await until(lambda: len(pushed) == 4, "four orders")
    expected = [Order(1), Order(2), Order(3), Order(4, "tea")]
    assert sorted(pushed, key=lambda order: order.number) == expected
    async with PullConsumer("Pull", namesrv, start_from="first", codec=Order) as pull:
        pull.subscribe("T")
        pulled: list[Order] = []
        while len(pulled) < 4:
            messages = await pull.poll()
            assert all(message.value is message.value for message in messages)  # decoded once
            pulled += [message.value_as(Order) for message in messages]
            for message in messages:
                with pytest.raises(CodecError, match="is Order, not Payment"):
                    message.value_as(Payment)
    assert sorted(pulled, key=lambda order: order.number) == expected


async def test_an_answer_is_read_by_the_askers_codec(bolide_broker: Broker) -> None:
    namesrv = bolide_broker.namesrv_addr
    consumer = PushConsumer("C", namesrv, start_from="first", codec="json", instance_name="other")

    async def answer(message: ReceivedMessage) -> None:
        await consumer.reply_to(message, json.dumps(message.value + 1).encode())

    consumer.subscribe("T", "*", answer)
    async with consumer, Producer("P", namesrv, codec="json") as producer:
        assert (await producer.request(Message("T", value=41), 60)).value == 42
