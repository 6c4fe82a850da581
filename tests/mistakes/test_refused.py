"""What a new user gets wrong, and what is said: one row for each mistake that raises.

Each answer is one sentence that names the argument, or what is missing, and says what to do.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bolide import client
from bolide.client import (
    ArgumentError,
    ClientStateError,
    FlowControl,
    Message,
    MessageQueue,
    MessageRefused,
    RequestTimeout,
    ResponseError,
    Retry,
    SendFailed,
    TransactionState,
    sql,
)
from bolide.errors import BolideError, ConnectionLost
from bolide.testing.broker import Broker
from proof.kit.waiting import PATIENCE
from tests.client.patient import Producer, PullConsumer, PushConsumer, TransactionProducer

NOBODY = "127.0.0.1:1"
wrong: Any = None
"""Stands for what a type checker would have refused."""


@dataclass(frozen=True)
class Mistake:
    """`make` does it against a broker; `argument` is the one the error names."""

    name: str
    make: Callable[[Broker], Awaitable[object]]
    error: type[BolideError]
    said: str
    argument: str = ""


MISTAKES: list[Mistake] = []


def mistake(error: type[BolideError], said: str, argument: str = "") -> Callable[[Any], Any]:
    """Add a function to the table; its name is the row's."""

    def add(make: Callable[[Broker], Awaitable[object]]) -> Callable[[Broker], Awaitable[object]]:
        MISTAKES.append(Mistake(make.__name__, make, error, said, argument))
        return make

    return add


def refused(name: str, said: str, argument: str, **message: Any) -> None:
    """Add a message that cannot be sent."""

    async def make(broker: Broker) -> object:
        async with Producer("P", broker.namesrv_addr) as producer:
            return await producer.send(Message(**{"topic": "T", "body": b"x", **message}))

    MISTAKES.append(Mistake(name, make, MessageRefused, said, argument))


def unfit(name: str, make: Callable[[], object], said: str, argument: str) -> None:
    """Add arguments of a constructor that are refused at once."""

    async def at_once(broker: Broker) -> object:
        return make()

    MISTAKES.append(Mistake(name, at_once, ArgumentError, said, argument))


@mistake(SendFailed, r"failed 3 times, the last time: the name server cannot be reached: .*: connection refused$")
async def no_server(broker: Broker) -> object:
    async with Producer("P", NOBODY) as producer:
        return await producer.send(Message("T", b"x"))


@mistake(ResponseError, r"is not a name server, .*: if it is a broker, give the address of its name server")
async def the_address_of_a_broker(broker: Broker) -> object:
    async with Producer("P", broker.broker_addr) as producer:
        return await producer.send(Message("T", b"x"))


@mistake(RequestTimeout, r"was not found within the time allowed; is 127\.0\.0\.1:\d+ a name server\?$")
async def the_address_of_something_else(broker: Broker) -> object:
    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(ignore, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        # This producer gives up after its own limit of 3 s, which is the outcome that the test expects.
        async with client.Producer("P", f"127.0.0.1:{port}", retry=Retry(attempts=1)) as producer:
            return await producer.send(Message("T", b"x"))
    finally:
        server.close()


@mistake(ConnectionLost, r"a frame of .* bytes.*; is it a name server of RocketMQ\?$")
async def the_address_of_a_web_server(broker: Broker) -> object:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with Producer("P", f"127.0.0.1:{port}", retry=Retry(attempts=1)) as producer:
            return await producer.send(Message("T", b"x"))
    finally:
        server.close()


unfit("no_port", lambda: Producer("P", "localhost"), r"'localhost' is not an address, write host:port", "namesrv")
refused("a_body_of_str", r"the body for topic T is str, give bytes$", "body", body="x")
refused("no_body", r"is empty, RocketMQ stores no empty messages$", "body", body=b"")
refused("a_large_body", r"has 5242880 bytes, 4194304 are allowed$", "body", body=bytes(5 * 1024 * 1024))


@mistake(ClientStateError, r"producer P is not started: use `async with` or await start\(\)$")
async def not_started(broker: Broker) -> object:
    return await Producer("P", broker.namesrv_addr).send(Message("T", b"x"))


@mistake(ClientStateError, r"producer P is closed$")
async def closed(broker: Broker) -> object:
    async with Producer("P", broker.namesrv_addr) as producer:
        pass
    return await producer.send(Message("T", b"x"))


@mistake(ClientStateError, r"group G is started already .*, give the second one another instance_name$")
async def the_same_group_twice(broker: Broker) -> object:
    async with PushConsumer("G", broker.namesrv_addr), PushConsumer("G", broker.namesrv_addr):
        return None


unfit(
    "start_from",
    lambda: PushConsumer("G", NOBODY, start_from="frist"),
    r'start_from is \'frist\' \(str\), which is not a time: give "first", "last"',
    "start_from",
)
unfit(
    "a_bool_as_time",
    lambda: PushConsumer("G", NOBODY, start_from=True),
    "start_from is True, which is not a time",
    "start_from",
)
unfit(
    "model",
    lambda: PushConsumer("G", NOBODY, model="cluster"),
    r'model=\'cluster\' is unknown, give "clustering" or "broadcasting"',
    "model",
)
unfit(
    "strategy",
    lambda: PushConsumer("G", NOBODY, strategy="AVERAGE"),
    "'AVERAGE' is unknown: use one of AVG, AVG_BY_CIRCLE",
    "strategy",
)
refused(
    "a_topic",
    r"topic 'my topic.v1' is invalid, only letters, digits and %\|-_ are allowed$",
    "topic",
    topic="my topic.v1",
)
refused("a_topic_that_is_none", r"the topic is None, give a str$", "topic", topic=None)
refused("tags_in_a_list", r"tags of a message to T is \['a', 'b'\] \(list\), give a str$", "tags", tags=["a", "b"])
refused("keys_that_are_a_number", r"keys of a message to T is 42, give a str, or several in a list$", "keys", keys=42)
refused("keys_of_numbers", r"keys of a message to T is \[1\] \(list\), give a str, or several", "keys", keys=[1])
refused(
    "a_property_of_int",
    r"properties\['n'\] of a message to T is 3, names and values are str$",
    "properties",
    properties={"n": 3},
)
refused(
    "properties_in_a_list",
    r"properties of .* is \['n'\] \(list\), give a dict of str to str$",
    "properties",
    properties=["n"],
)
refused("a_reserved_property", r"property 'KEYS' is reserved by RocketMQ$", "properties", properties={"KEYS": "k"})
refused(
    "a_time_without_a_zone",
    r"deliver_at 2030-01-01 00:00:00 has no time zone: give a datetime with one",
    "deliver_at",
    deliver_at=datetime(2030, 1, 1),  # noqa: DTZ001  # the mistake under test
)
refused("two_delays", r"give one of them$", "delay_level", delay=1, delay_level=1)
refused("a_delay_level_of_text", r"delay level '3' does not exist, choose 1 to 18$", "delay_level", delay_level="3")
refused("a_sharding_key_of_int", r"sharding_key of a message to T is 7, give a str$", "sharding_key", sharding_key=7)
NO_CODEC = r"has a value, give the producer a codec for this topic$"
refused("a_value_without_a_codec", NO_CODEC, "value", body=b"", value={"a": 1})
unfit(
    "codec",
    lambda: Producer("P", NOBODY, codec="jsn"),
    r"codec 'jsn' is unknown, give \"json\", a type, or an object with encode and decode$",
    "codec",
)


@mistake(ResponseError, r"MESSAGE_ILLEGAL \(13\): timer message illegal.*: timerMaxDelaySec on the broker says")
async def a_delay_of_a_month(broker: Broker) -> object:
    async with Producer("P", broker.namesrv_addr) as producer:
        return await producer.send(Message("T", b"x", delay=timedelta(days=30)))


@mistake(ResponseError, r"filter message by SQL92: set enablePropertyFilter=true on the broker$")
async def sql_where_filters_are_off(broker: Broker) -> object:
    broker.create_topic("T")
    consumer = PushConsumer("G", broker.namesrv_addr)
    consumer.subscribe("T", sql("a > 5"), lambda message: None)
    async with consumer:
        return None


@mistake(ArgumentError, r"listener nothing\(\).* cannot be called with \(message\)", "listener")
async def a_listener_without_a_parameter(broker: Broker) -> object:
    def nothing() -> None:
        """Take no message."""

    listener: Any = nothing
    return PushConsumer("G", NOBODY).subscribe("T", "*", listener)


@mistake(ArgumentError, r"listener is None, give a function of \(message\)$", "listener")
async def no_listener(broker: Broker) -> object:
    return PushConsumer("G", NOBODY).subscribe("T", "*", wrong)


@mistake(RequestTimeout, r"no response to a request to T within 2 s$")
async def nobody_answers_a_request(broker: Broker) -> object:
    broker.create_topic("T")
    async with Producer("P", broker.namesrv_addr) as producer:
        await producer.send(Message("T", b"x"), timeout=PATIENCE)  # what it costs to begin is no part of the time
        return await producer.request(Message("T", b"x"), timeout=2)


@mistake(BolideError, r"TLS with .* failed: [^:]+: is TLS expected there\?$")
async def tls_against_a_plain_port(broker: Broker) -> object:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with Producer(
            "P", f"127.0.0.1:{port}", ssl=ssl.create_default_context(), retry=Retry(attempts=1)
        ) as producer:
            return await producer.send(Message("T", b"x"))
    finally:
        server.close()


@mistake(ClientStateError, r"consumer G has no topic or queue: call subscribe\(topic\) or assign\(queues\) first$")
async def a_poll_without_a_subscription(broker: Broker) -> object:
    async with PullConsumer("G", broker.namesrv_addr) as consumer:
        return await consumer.poll()


@mistake(ClientStateError, r"was started on another event loop: use it where it was started")
async def another_loop(broker: Broker) -> object:
    async with Producer("P", broker.namesrv_addr) as producer:
        return await asyncio.to_thread(asyncio.run, producer.send_many([Message("T", b"x")]))


class OnlyExecutes:
    """A listener of transactions that cannot be asked."""

    def execute(self, message: Message, argument: Any) -> TransactionState:
        return TransactionState.COMMIT


class AsksForMore:
    """A listener of transactions whose check takes too much."""

    def execute(self, message: Message, argument: Any) -> TransactionState:
        return TransactionState.COMMIT

    def check(self, message: Message, more: Any) -> TransactionState:
        return TransactionState.COMMIT


def transactional(listener: object) -> TransactionProducer:
    given: Any = listener
    return TransactionProducer("P", NOBODY, given)


unfit("no_listener_of_transactions", lambda: transactional(None), "needs a listener: give it one$", "listener")
unfit(
    "a_listener_without_check",
    lambda: transactional(OnlyExecutes()),
    r"^listener OnlyExecutes has no method check\(message\)$",
    "listener",
)
unfit(
    "a_check_with_another_signature",
    lambda: transactional(AsksForMore()),
    r"^listener.check check\(.*\).* cannot be called with \(message\): give it exactly these parameters$",
    "listener.check",
)


@mistake(ResponseError, r"recall failed, operation is forbidden: set recallMessageEnable=true on the broker$")
async def a_recall_where_it_is_off(broker: Broker) -> object:
    async with Producer("P", broker.namesrv_addr) as producer:
        sent = await producer.send(Message("T", b"x", delay=60))
        return await producer.recall("T", sent.recall_handle)


unfit("group", lambda: Producer("my group"), r"^group 'my group' is invalid, only letters, digits", "group")
unfit(
    "swapped", lambda: Producer("127.0.0.1:9876"), "^group '127.0.0.1:9876' looks like an address: the group", "group"
)
unfit("swapped_consumer", lambda: PullConsumer("h:1;i:2", "G"), "looks like an address: the group comes first", "group")
unfit(
    "setting", lambda: Broker(auto_create_topic=False), "did you mean auto_create_topic_enable\\?$", "auto_create_topic"
)

NUMBERS: list[tuple[Any, str, Any]] = [
    (Producer, "max_in_flight", 0),
    (Producer, "max_in_flight_bytes", 0),
    (Retry, "attempts", 0),
    (Producer, "timeout", 0),
    (Producer, "timeout", "3"),
    (Producer, "compress_above", -1),
    (Producer, "max_body", 0),
    (Producer, "queue_count", 2.5),
    (Producer, "interceptors", (object(),)),
    (Producer, "compression", "GZIP"),
    (Producer, "namespace", "a%b"),
    (PushConsumer, "concurrency", 0),
    (FlowControl, "max_cached", 0),
    (FlowControl, "max_cached_bytes", True),
    (FlowControl, "max_cached_for_topic", 0),
    (PushConsumer, "max_reconsume_times", -2),
    (PushConsumer, "consume_timeout", 0),
    (FlowControl, "pull_batch", -5),
    (FlowControl, "pull_batch", 1025),
    (PushConsumer, "suspend", -1),
    (PullConsumer, "suspend", float("nan")),
    (PullConsumer, "hooks", (object(),)),
]


@pytest.mark.parametrize(("kind", "argument", "value"), NUMBERS, ids=range(len(NUMBERS)))
def test_each_argument_is_checked_when_it_is_given(kind: Any, argument: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=argument) as raised:
        kind("G", NOBODY, **{argument: value})
    assert raised.value.argument == argument and isinstance(raised.value, ValueError)


@pytest.mark.parametrize("row", MISTAKES, ids=lambda row: row.name)
async def test_a_mistake_gets_its_answer(row: Mistake, bolide_broker: Broker) -> None:
    with pytest.raises(row.error, match=row.said) as raised:
        await row.make(bolide_broker)
    assert "\n" not in str(raised.value)
    if row.argument:
        assert isinstance(raised.value, ArgumentError) and raised.value.argument == row.argument


async def test_a_bad_message_among_many_does_not_cost_the_others(bolide_broker: Broker) -> None:
    """Neither those before it their outcomes, nor those after it their way."""
    async with Producer("P", bolide_broker.namesrv_addr, max_in_flight=2) as producer:
        given: list[Any] = [Message("T", b"1"), Message("T"), Message("T", b"3"), None, Message("T", b"5")]
        outcomes = await producer.send_many(given)
        assert [type(outcome).__name__ for outcome in outcomes] == [
            *("SendResult", "MessageRefused", "SendResult", "MessageRefused", "SendResult")
        ]


async def test_a_function_that_fails_to_pick_a_queue_keeps_no_place(bolide_broker: Broker) -> None:
    def fails(queues: list[MessageQueue], message: Message) -> MessageQueue:
        raise KeyError("none")

    async with Producer("P", bolide_broker.namesrv_addr, max_in_flight=1) as producer:
        with pytest.raises(MessageRefused, match=r"picks the queue .* failed: KeyError\('none'\)"):
            await producer.send(Message("T", b"x"), queue=fails)
        with pytest.raises(MessageRefused, match="give a MessageQueue or a function"):
            await producer.send(Message("T", b"x"), queue=wrong or 3)
        with pytest.raises(MessageRefused, match="give a queue of its topic"):
            await producer.send(Message("T", b"x"), queue=MessageQueue("Other", "broker-a", 0))
        assert producer.in_flight == 0
        await producer.send(Message("T", b"x"))


def test_a_store_in_use_is_refused(tmp_path: Path) -> None:
    with (
        Broker(str(tmp_path)),
        pytest.raises(BolideError, match="lock is already locked by this process; close the other"),
    ):
        Broker(str(tmp_path)).start()
