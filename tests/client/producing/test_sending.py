"""One message on its way: whatever goes wrong with it is its outcome, and its place in flight is free again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bolide.client import Message, SendResult
from bolide.client.messages.hooks import RpcCall
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from proof.kit.waiting import PATIENCE
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
async def test_what_a_hook_raises_is_the_outcome_of_the_send(body: bytes, there: str, broker: ScriptedBroker) -> None:
    async with served(broker, hooks=(Refuses(),)) as producer:
        await prepared(producer, there)
        with pytest.raises(ValueError, match=body.decode()):
            await producer.send(Message("T", body))
        assert isinstance(await producer.send(Message("T", b"fine")), SendResult)


async def test_what_a_hook_raises_keeps_no_other_message_from_being_sent(broker: ScriptedBroker) -> None:
    async with served(broker, hooks=(Refuses(),)) as producer:
        queue = (await producer.queues("T"))[0]
        delayed = [Message("T", body, delay_level=1) for body in (b"fine", b"before", b"after", b"fine")]
        outcomes = await producer.send_many(delayed, queue=queue)
        assert [type(outcome) for outcome in outcomes] == [SendResult, ValueError, ValueError, SendResult]


@pytest.mark.parametrize("there", ["nothing", "route", "connection"])
async def test_text_that_cannot_be_encoded_is_the_outcome_of_its_message(there: str, broker: ScriptedBroker) -> None:
    async with served(broker) as producer:
        await prepared(producer, there)
        with pytest.raises(UnicodeEncodeError):
            await producer.send(Message("T", b"x", keys="\ud800"))


async def test_an_answer_that_says_nothing_is_an_error(broker: ScriptedBroker) -> None:
    broker.script[codes.SEND_MESSAGE_V2] = lambda command: make_response(command, 0, ext={"queueId": "none"})
    async with asyncio.timeout(PATIENCE), Producer("P", broker.address) as producer:
        with pytest.raises(ValueError, match="none"):
            await producer.send(Message("T", b"x"))
        assert producer.in_flight == 0
