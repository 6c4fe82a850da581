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
            async with Producer("P", broker.address, **options) as producer:  # type: ignore[arg-type]  # as given
                await act(producer)
                assert producer.in_flight == 0

    with ScriptedBroker() as broker:
        asyncio.run(main(broker))


@pytest.mark.parametrize("warm", [False, True], ids=["first", "later"])
@pytest.mark.parametrize("body", [b"before", b"after"])
def test_what_a_hook_raises_is_the_outcome_of_the_send(body: bytes, warm: bool) -> None:
    async def act(producer: Producer) -> None:
        if warm:  # with a route and a connection a send leaves within the call, without them from a task
            await producer.send(Message("T", b"fine"))
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


@pytest.mark.parametrize("warm", [False, True], ids=["first", "later"])
def test_text_that_cannot_be_encoded_is_the_outcome_of_its_message(warm: bool) -> None:
    async def act(producer: Producer) -> None:
        if warm:
            await producer.send(Message("T", b"fine"))
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
