"""Values as bodies: JSON, structs, pydantic's models, and what does not fit."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import msgspec
import pydantic
import pytest

from bolide.client import CodecContext, CodecError, JsonCodec, Message, MessageRefused, ReceivedMessage
from bolide.client.messages.codec import CodecChoice, PydanticCodec, find_codec, find_codecs, value_of, with_body
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
    read = value_of(message.body, codec, message)
    assert read == value and type(read) is type(value)


class Unsupported(msgspec.Struct):
    both: dict[str, int] | dict[str, str]


def test_type_that_msgspec_does_not_support_is_rejected_by_name() -> None:
    with pytest.raises(ArgumentError, match="^codec Unsupported cannot be decoded: Type unions ") as caught:
        find_codec(Unsupported)
    assert caught.value.argument == "codec"


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
    message = Message("T")
    with pytest.raises(CodecError, match=r"the body of Message\(topic='T'"):
        value_of(b'{"number": "x", "age": -1}' if choice != "json" else b"{", find_codec(choice), message)
    with pytest.raises(CodecError, match="give the consumer a codec"):
        value_of(b"{}", None, message)


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


class Telling:
    """A codec whose bodies and values name the topic and a property of their message."""

    def encode(self, value: Any, context: CodecContext) -> bytes:
        return f"{value} {context.topic} {context.properties['form']}".encode()

    def decode(self, body: bytes, context: CodecContext) -> Any:
        if body == b"bad":
            raise KeyError("schema 9")
        return f"{body.decode()} {context.topic} {context.properties['form']}"


class OneArgument:
    """A codec of an earlier release."""

    def encode(self, value: Any) -> bytes:
        return b""

    def decode(self, body: bytes) -> Any:
        return body


def test_a_codec_that_takes_no_message_is_refused() -> None:
    old: Any = OneArgument()
    with pytest.raises(ArgumentError, match=r"codec.encode .*value, context"):
        find_codec(old)


def test_each_topic_has_its_codec() -> None:
    codecs = find_codecs({"A": Telling(), "B": "json", "C": None})
    assert with_body(Message("A", value=1, properties={"form": "x"}), codecs).body == b"1 A x"
    assert with_body(Message("B", value=1), codecs).body == b"1"
    for topic in ("C", "D"):
        with pytest.raises(MessageRefused, match=f"a message to {topic} has a value, give the producer a codec for"):
            with_body(Message(topic, value=1), codecs)
    with pytest.raises(ArgumentError, match='give "json"'):
        find_codecs({"A": "xml"})


async def test_a_subscription_has_a_codec_which_sees_topic_and_properties(bolide_broker: Broker) -> None:
    namesrv = bolide_broker.namesrv_addr
    async with Producer("P", namesrv, codec={"A": Telling(), "B": "json"}, namespace="ns") as producer:
        await producer.send(Message("A", value=1, properties={"form": "x"}))
        await producer.send(Message("B", value=2))
    expected = {"A": "1 A x A x", "B": 2}
    pushed: dict[str, Any] = {}
    filtered: dict[str, Any] = {}

    def take(message: ReceivedMessage) -> None:
        pushed[message.topic] = message.value

    def wanted(message: ReceivedMessage) -> bool:
        filtered[message.topic] = message.value
        return True

    push = PushConsumer("Push", namesrv, start_from="first", codec="json", namespace="ns", filters=(wanted,))
    push.subscribe("A", "*", take, codec=Telling())
    push.subscribe("B", "*", take)
    async with push:
        await until(lambda: len(pushed) == 2, "both messages")
    assert pushed == filtered == expected
    pulled: dict[str, Any] = {}
    async with PullConsumer("Pull", namesrv, start_from="first", codec="json", namespace="ns") as pull:
        pull.subscribe("A", codec=Telling())
        pull.subscribe("B")
        while len(pulled) < 2:
            pulled |= {message.topic.removeprefix("ns%"): message.value for message in await pull.poll()}
        (queue,) = [queue for queue in pull.assignment() if (await pull.pull(queue, 0)).messages and "A" in queue.topic]
        (message,) = (await pull.pull(queue, 0)).messages
        assert message.value == pulled["A"]
    assert pulled == expected


async def test_an_undecodable_message_is_dead_and_delays_no_other(bolide_broker: Broker) -> None:
    namesrv = bolide_broker.namesrv_addr
    async with Producer("P", namesrv) as producer:
        queue = (await producer.queues("T"))[0]
        for body in (b"bad", b"good"):
            await producer.send(Message("T", body, properties={"form": "x"}), queue=queue)
    seen: list[str] = []
    push = PushConsumer("G", namesrv, start_from="first", max_reconsume_times=0)
    push.subscribe("T", "*", lambda message: seen.append(message.value), codec=Telling())
    async with push:
        await until(lambda: seen == ["good T x"] and "%DLQ%G" in bolide_broker.topics(), "a value and a dead letter")
