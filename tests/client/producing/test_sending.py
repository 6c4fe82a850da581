"""One message on its way: whatever goes wrong with it is its outcome, and its place in flight is free again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bolide.client import Message, MessageRefused, ResponseError, Retry, SendFailed, SendResult
from bolide.client.messages.hooks import RpcCall
from bolide.errors import RequestTimeout
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from proof.kit.waiting import PATIENCE, until
from tests.client.patient import Producer
from tests.client.scripted_broker import ScriptedBroker


class Refuses:
    """A hook that raises where its body says so."""

    def before(self, call: RpcCall) -> None:
        if call.body == b"before":
            raise ValueError("before")

    def after(self, call: RpcCall, answer: Command) -> None:
        if call.body == b"after":
            raise ValueError("after")


@asynccontextmanager
async def served(broker: ScriptedBroker, **options: object) -> AsyncIterator[Producer]:
    """A producer for a test, at whose end nothing is in flight."""
    async with asyncio.timeout(PATIENCE):
        namesrv = broker.address.replace("127.0.0.1", "localhost")  # so that the broker has a connection of its own
        async with Producer("P", namesrv, **options) as producer:  # type: ignore[arg-type]  # as given
            yield producer
            assert producer.in_flight == 0


async def prepared(producer: Producer, there: str) -> None:
    """Have a route, or a connection, too: then a send leaves within the call, else from a task."""
    if there == "route":
        await producer.queues("T")
    elif there == "connection":
        await producer.send(Message("T", b"fine"))


@pytest.mark.parametrize("there", ["nothing", "route", "connection"])
@pytest.mark.parametrize("body", [b"before", b"after"])
async def test_error_of_a_hook_is_the_outcome_of_the_send(body: bytes, there: str, broker: ScriptedBroker) -> None:
    async with served(broker, hooks=(Refuses(),)) as producer:
        await prepared(producer, there)
        with pytest.raises(ValueError, match=body.decode()):
            await producer.send(Message("T", body))
        assert isinstance(await producer.send(Message("T", b"fine")), SendResult)


@pytest.mark.parametrize("there", ["nothing", "route", "connection"])
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_stop_iteration_of_a_hook_is_the_outcome_of_the_send(
    moment: str, there: str, broker: ScriptedBroker
) -> None:
    class Stops(Refuses):
        def before(self, call: RpcCall) -> None:
            if call.body == b"stop" and moment == "before":
                raise StopIteration

        def after(self, call: RpcCall, answer: Command) -> None:
            if call.body == b"stop" and moment == "after":
                raise StopIteration

    async with served(broker, hooks=(Stops(),)) as producer:
        await prepared(producer, there)
        with pytest.raises(SendFailed, match="StopIteration from code of the user"):
            await producer.send(Message("T", b"stop"))


async def test_error_of_a_hook_affects_only_its_message(broker: ScriptedBroker) -> None:
    async with served(broker, hooks=(Refuses(),)) as producer:
        queue = (await producer.queues("T"))[0]
        delayed = [Message("T", body, delay_level=1) for body in (b"fine", b"before", b"after", b"fine")]
        outcomes = await producer.send_many(delayed, queue=queue)
        assert [type(outcome) for outcome in outcomes] == [SendResult, ValueError, ValueError, SendResult]


@pytest.mark.parametrize("there", ["nothing", "route", "connection"])
async def test_text_that_cannot_be_encoded_is_the_outcome_of_its_message(there: str, broker: ScriptedBroker) -> None:
    async with served(broker) as producer:
        await prepared(producer, there)
        with pytest.raises(MessageRefused, match="surrogate pair"):
            await producer.send(Message("T", b"x", keys="\ud800"))


async def test_an_answer_that_says_nothing_is_an_error(broker: ScriptedBroker) -> None:
    broker.script[codes.SEND_MESSAGE_V2] = lambda command: make_response(command, 0, ext={"queueId": "none"})
    async with asyncio.timeout(PATIENCE), Producer("P", broker.address) as producer:
        with pytest.raises(ValueError, match="none"):
            await producer.send(Message("T", b"x"))
        assert producer.in_flight == 0


class Away:
    """Answers sends with a code until `times` of them were refused."""

    def __init__(self, broker: ScriptedBroker, code: int, times: int, remark: str = "not now") -> None:
        self.broker, self.code, self.left, self.remark = broker, code, times, remark

    def __call__(self, command: Command) -> Command | None:
        if self.left:
            self.left -= 1
            return make_response(command, self.code, self.remark)
        return self.broker.on_send_message_v2(command)


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (codes.SYSTEM_BUSY, "busy"),
        (codes.SERVICE_NOT_AVAILABLE, "a slave"),
        (codes.SYSTEM_ERROR, "in-sync replicas not enough"),
    ],
)
async def test_a_send_uses_its_time_until_the_broker_takes_it(code: int, remark: str, broker: ScriptedBroker) -> None:
    async with served(broker) as producer:
        broker.script[codes.SEND_MESSAGE_V2] = Away(broker, code, 6, remark)
        assert isinstance(await producer.send(Message("T", b"x")), SendResult)
        assert len(broker.requests(codes.SEND_MESSAGE_V2)) == 7


async def test_a_topic_that_had_a_route_is_waited_for(broker: ScriptedBroker) -> None:
    async with served(broker) as producer:
        await producer.send(Message("T", b"x"))
        topics = set(broker.topics)
        broker.on_loop(broker.topics.clear)
        producer._sender.routes.forget(producer._sender.instance, "T")
        sending = asyncio.get_running_loop().create_task(producer.send(Message("T", b"y")))
        await until(lambda: len(broker.requests(codes.GET_ROUTEINFO_BY_TOPIC)) > 8, "several looks")
        broker.on_loop(lambda: broker.topics.update(topics))
        assert isinstance(await sending, SendResult)


async def test_without_a_broker_a_send_fails_after_its_time_and_blames_no_topic(broker: ScriptedBroker) -> None:
    async with served(broker) as producer:
        await producer.send(Message("T", b"x"))
        broker.on_loop(broker.topics.clear)
        producer._sender.routes.forget(producer._sender.instance, "T")
        for timeout in (0.5, 5.0, 50.0):  # a stalled machine gets more time
            began = producer._sender.loop.time()
            with pytest.raises((SendFailed, RequestTimeout)) as caught:
                await producer.send(Message("T", b"y"), timeout=timeout)
            if isinstance(caught.value, SendFailed) and "had a route before" in str(caught.value):
                break
        assert "no broker serves topic T now, it had a route before" in str(caught.value)
        assert producer._sender.loop.time() - began >= 0.8 * timeout


async def test_a_look_up_that_gets_no_answer_ends_with_the_time_of_the_send(broker: ScriptedBroker) -> None:
    broker.script[codes.GET_ROUTEINFO_BY_TOPIC] = lambda command: None
    async with served(broker) as producer:
        with pytest.raises(RequestTimeout, match="the route of topic T was not found within the time allowed"):
            await producer.send(Message("T", b"x"), timeout=0.1)


async def test_a_look_up_for_a_busy_broker_leaves_time_for_another_try(broker: ScriptedBroker) -> None:
    async with served(broker, retry=Retry(attempts=2)) as producer:
        await producer.send(Message("T", b"x"))
        broker.script[codes.SEND_MESSAGE_V2] = Away(broker, codes.SYSTEM_BUSY, 99)
        broker.script[codes.GET_ROUTEINFO_BY_TOPIC] = lambda command: None
        for _ in range(5):  # a stalled machine gets more time
            before = len(broker.requests(codes.SEND_MESSAGE_V2))
            with pytest.raises((SendFailed, RequestTimeout)):
                await producer.send(Message("T", b"y"), timeout=0.8)
            if len(broker.requests(codes.SEND_MESSAGE_V2)) > before + 1:
                return
        raise AssertionError("the look-up took all the time")


class Stalls:
    """A hook that blocks the loop until a time, while the send pauses after a rejection."""

    until = 0.0

    def before(self, call: RpcCall) -> None:
        """The request is sent as it is."""

    def after(self, call: RpcCall, answer: Command) -> None:
        if answer.code == codes.SYSTEM_BUSY:
            asyncio.get_running_loop().call_soon(self._stall)

    def _stall(self) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < self.until:
            pass


@pytest.mark.parametrize("sharding_key", ["", "k"])
async def test_send_whose_time_ends_in_a_pause_reports_its_last_failure(
    sharding_key: str, broker: ScriptedBroker
) -> None:
    stalls = Stalls()
    async with served(broker, hooks=(stalls,)) as producer:
        await producer.send(Message("T", b"x", sharding_key=sharding_key))
        broker.script[codes.SEND_MESSAGE_V2] = Away(broker, codes.SYSTEM_BUSY, 99)
        for timeout in (1.0, 10.0):  # a stalled machine gets more time
            stalls.until = asyncio.get_running_loop().time() + timeout + 0.1
            before = len(broker.requests(codes.SEND_MESSAGE_V2))
            with pytest.raises((ResponseError, SendFailed)) as caught:
                await producer.send(Message("T", b"y", sharding_key=sharding_key), timeout=timeout)
            if len(broker.requests(codes.SEND_MESSAGE_V2)) > before:
                break
        assert "not now" in str(caught.value)


@pytest.mark.parametrize("sharding_key", ["", "k"])
async def test_a_message_that_is_tried_once_is_tried_once(sharding_key: str, broker: ScriptedBroker) -> None:
    async with served(broker, retry=Retry(attempts=1)) as producer:
        broker.script[codes.SEND_MESSAGE_V2] = Away(broker, codes.SERVICE_NOT_AVAILABLE, 99)
        with pytest.raises(ResponseError):
            await producer.send(Message("T", b"x", sharding_key=sharding_key))
        assert len(broker.requests(codes.SEND_MESSAGE_V2)) == 1
