"""Interceptors around sends and listeners."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from bolide.client import Message, ReceivedMessage, Retry, TooFast
from bolide.client.messages.errors import MessageRefused
from bolide.client.tracing.interceptor import ConsumeCall, Interceptor, SendCall
from bolide.errors import BolideError
from bolide.testing.broker import Broker
from proof.kit.waiting import PROCESS_PATIENCE, until
from tests.client.patient import Producer, PullConsumer, PushConsumer


class Notes(Interceptor):
    """Writes down what it sees."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self.name = name
        self.notes = notes
        self.outcomes: list[tuple[bytes, bool]] = []

    async def start(self) -> None:
        self.notes.append(f"{self.name} starts")

    async def close(self) -> None:
        self.notes.append(f"{self.name} closes")

    def before_send(self, call: SendCall) -> None:
        if call.message.tags == "refused":
            raise MessageRefused("not by this producer")
        call.message = replace(call.message, properties={**call.message.properties, self.name: "was here"})
        call.state[self.name] = len(self.notes)
        self.notes.append(f"{self.name} before {call.message.body.decode()}")

    def after_send(self, call: SendCall) -> None:
        assert self.name in call.state
        outcome = type(call.error).__name__ if call.result is None else call.result.message_id == call.message_id
        self.notes.append(f"{self.name} after {call.message.body.decode()} {outcome}")
        if self.name == "bad":
            raise ValueError("scripted")

    def before_consume(self, call: ConsumeCall) -> None:
        if self.name == "bad" and call.messages[0].reconsume_times == 0:
            raise ValueError("scripted")

    def after_consume(self, call: ConsumeCall) -> None:
        self.outcomes.append((call.messages[0].body, call.success))
        if self.name == "bad":
            raise ValueError("scripted")


async def test_around_sends(bolide_broker: Broker) -> None:
    notes: list[str] = []
    pair = (Notes("a", notes), Notes("bad", notes))
    async with Producer("P", bolide_broker.namesrv_addr, interceptors=pair, retry=Retry(attempts=1)) as producer:
        await producer.send(Message("T", b"1"))
        with pytest.raises(MessageRefused, match="not by this"):
            await producer.send(Message("T", b"2", tags="refused"))
        await producer.send_oneway(Message("T", b"3"))
        with pytest.raises(BolideError):
            await producer.send(Message("T", b"4"), timeout=1e-9)
    assert notes[:2] == ["a starts", "bad starts"] and notes[-2:] == ["a closes", "bad closes"]
    assert notes[2:6] == ["a before 1", "bad before 1", "bad after 1 True", "a after 1 True"]
    assert not any(" 2" in note for note in notes)
    assert {"a after 3 True", "a after 4 RequestTimeout"} <= set(notes)


async def test_a_refused_send_leaves_no_call_open() -> None:
    notes: list[str] = []
    with Broker() as broker:
        pair = (Notes("a", notes),)
        async with Producer("P", broker.namesrv_addr, interceptors=pair, max_in_flight=1) as producer:
            future = producer.submit(Message("T", b"1"))
            with pytest.raises(TooFast):
                producer.submit(Message("T", b"2"))
            await future
    assert notes.count("a before 1") == notes.count("a after 1 True") == 1
    assert not any("2" in note for note in notes)


class Opens(Interceptor):
    """Counts the calls that have begun and not ended."""

    def __init__(self) -> None:
        self.open = 0
        self.errors: list[str] = []

    def before_send(self, call: SendCall) -> None:
        self.open += 1

    def after_send(self, call: SendCall) -> None:
        self.open -= 1
        self.errors.append(type(call.error).__name__)


async def test_rejected_message_ends_its_interceptors(bolide_broker: Broker) -> None:
    watch = Opens()
    pair = (watch, Notes("a", []))
    async with Producer("P", bolide_broker.namesrv_addr, interceptors=pair) as producer:
        with pytest.raises(MessageRefused, match="not by this"):
            await producer.send(Message("T", b"1", tags="refused"))
        with pytest.raises(MessageRefused, match="empty"):
            await producer.send(Message("T"))
        with pytest.raises(MessageRefused, match="not by this"):
            await producer.send_batch([Message("T", b"1"), Message("T", b"2", tags="refused")])
        with pytest.raises(MessageRefused):
            await producer.send_batch([Message("T", b"1"), Message("U", b"2")])
    assert (watch.open, watch.errors) == (0, ["MessageRefused"] * 6)


@pytest.mark.parametrize("batch", [0, 4])
async def test_around_listeners(bolide_broker: Broker, batch: int) -> None:
    watch, bad = Notes("a", []), Notes("bad", [])
    seen: list[bytes] = []

    def take(given: ReceivedMessage | list[ReceivedMessage]) -> bool:
        messages = given if isinstance(given, list) else [given]
        seen.extend(message.body for message in messages)
        return messages[0].reconsume_times >= 2

    consumer = PushConsumer(
        "G", bolide_broker.namesrv_addr, start_from="first", orderly=True, orderly_pause=0.01,
        interceptors=(watch, bad),
    )  # fmt: skip
    consumer.subscribe("T", "*", take, batch=batch)
    async with Producer("P", bolide_broker.namesrv_addr) as producer, consumer:
        await producer.send(Message("T", b"1"))
        await until(lambda: (b"1", True) in watch.outcomes, "the end")
    # The first try is failed by `bad` before the listener is reached, the second by the listener.
    assert seen == [b"1", b"1"]
    assert bad.outcomes == [(b"1", False), (b"1", True)]
    assert watch.outcomes == [(b"1", False), *bad.outcomes]


class Leaving(Interceptor):
    """Closes its client when it is closed itself; its first start fails if it has a `failure`."""

    def __init__(self, failure: BaseException | None = None) -> None:
        self.client: Producer | PushConsumer | PullConsumer | None = None
        self.failure = failure
        self.started = self.closed = 0

    async def start(self) -> None:
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        self.started += 1

    async def close(self) -> None:
        if self.client is not None:
            await self.client.close()
        self.closed += 1


@pytest.mark.parametrize("kind", [Producer, PushConsumer, PullConsumer])
async def test_an_interceptor_may_close_its_client(kind: Any, bolide_broker: Broker) -> None:
    leaving = Leaving()
    leaving.client = client = kind("G", bolide_broker.namesrv_addr, interceptors=(leaving,))
    await client.start()
    await client.close()
    assert leaving.closed == 1
    await kind("G", bolide_broker.namesrv_addr).close()


@pytest.mark.parametrize("kind", [Producer, PushConsumer, PullConsumer])
async def test_an_interceptor_that_starts_its_client_does_not_wait_for_itself(kind: Any, bolide_broker: Broker) -> None:
    class Starting(Interceptor):
        async def start(self) -> None:
            assert await client.start() is client

    client = kind("G", bolide_broker.namesrv_addr, interceptors=(Starting(),))
    async with asyncio.timeout(PROCESS_PATIENCE), client:
        pass


@pytest.mark.parametrize("failure", [ValueError("x"), asyncio.CancelledError(), SystemExit(2)])
@pytest.mark.parametrize("kind", [Producer, PushConsumer, PullConsumer])
async def test_a_start_that_an_interceptor_failed_is_repeated(
    kind: Any, failure: BaseException, bolide_broker: Broker
) -> None:
    leaving = Leaving(failure)
    client = kind("G", bolide_broker.namesrv_addr, interceptors=(leaving,))
    with pytest.raises(type(failure)):
        await client.start()
    async with client:
        assert (leaving.started, leaving.closed) == (1, 1)
    assert leaving.closed == 2
