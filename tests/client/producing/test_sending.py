"""One message on its way: whatever goes wrong with it is its outcome, and its place in flight is free again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bolide.client import Message, Producer, SendResult
from bolide.client.messages.hooks import RpcCall
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from tests.client.scripted_broker import ScriptedBroker

GENEROUS = 30.0


class Refuses:
    """A hook that raises where its body says so."""

    def before(self, call: RpcCall) -> None:
        if call.body == b"before":
            raise ValueError("before")

    def after(self, call: RpcCall, answer: Command) -> None:
        if call.body == b"after":
            raise ValueError("after")


def served(act: Callable[[Producer], Awaitable[None]], **options: object) -> None:
    """Run something with a producer, which then has nothing in flight and closes."""

    async def main(broker: ScriptedBroker) -> None:
        async with asyncio.timeout(GENEROUS):
            namesrv = broker.address.replace("127.0.0.1", "localhost")  # so that the broker has a connection of its own
            async with Producer("P", namesrv, **options) as producer:  # type: ignore[arg-type]  # as given
                await act(producer)
                assert producer.in_flight == 0

    with ScriptedBroker() as broker:
        asyncio.run(main(broker))


async def prepared(producer: Producer, there: str) -> None:
    """Have a route, or a connection, too: then a send leaves within the call, else from a task."""
    if there == "route":
        await producer.queues("T")
    elif there == "connection":
        await producer.send(Message("T", b"fine"))


@pytest.mark.parametrize("there", ["nothing", "route", "connection"])
@pytest.mark.parametrize("body", [b"before", b"after"])
def test_what_a_hook_raises_is_the_outcome_of_the_send(body: bytes, there: str) -> None:
    async def act(producer: Producer) -> None:
        await prepared(producer, there)
        with pytest.raises(ValueError, match=body.decode()):
            await producer.send(Message("T", body))
        assert isinstance(await producer.send(Message("T", b"fine")), SendResult)

    served(act, hooks=(Refuses(),))


def test_what_a_hook_raises_keeps_no_other_message_from_being_sent() -> None:
    async def act(producer: Producer) -> None:
        queue = (await producer.queues("T"))[0]
        delayed = [Message("T", body, delay_level=1) for body in (b"fine", b"before", b"after", b"fine")]
        outcomes = await producer.send_many(delayed, queue=queue)
        assert [type(outcome) for outcome in outcomes] == [SendResult, ValueError, ValueError, SendResult]

    served(act, hooks=(Refuses(),))


@pytest.mark.parametrize("there", ["nothing", "route", "connection"])
def test_text_that_cannot_be_encoded_is_the_outcome_of_its_message(there: str) -> None:
    async def act(producer: Producer) -> None:
        await prepared(producer, there)
        with pytest.raises(UnicodeEncodeError):
            await producer.send(Message("T", b"x", keys="\ud800"))

    served(act)


def test_an_answer_that_says_nothing_is_an_error() -> None:
    async def main(broker: ScriptedBroker) -> None:
        broker.script[codes.SEND_MESSAGE_V2] = lambda command: make_response(command, 0, ext={"queueId": "none"})
        async with asyncio.timeout(GENEROUS), Producer("P", broker.address) as producer:
            with pytest.raises(ValueError, match="none"):
                await producer.send(Message("T", b"x"))
            assert producer.in_flight == 0

    with ScriptedBroker() as broker:
        asyncio.run(main(broker))
