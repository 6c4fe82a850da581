"""Concurrent consumption: every message that was given to a listener ends, however its call does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bolide.client import ClientStateError, MessageQueue, ReceivedMessage
from bolide.remoting import codes
from proof.kit.waiting import PATIENCE, until
from tests.client.consumer_parts import Q0, consumer
from tests.client.scripted_broker import ScriptedBroker, refusing


def refuse_copies(broker: ScriptedBroker) -> None:
    """Have the broker take no message back, neither by its name nor as a copy."""
    for code in (codes.CONSUMER_SEND_MSG_BACK, codes.SEND_MESSAGE_V2):
        broker.script[code] = refusing(codes.SYSTEM_ERROR)


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_cancellation_that_a_listener_met_elsewhere_is_a_failure(orderly: bool, broker: ScriptedBroker) -> None:
    seen: list[bytes] = []

    async def listen(message: ReceivedMessage) -> None:
        seen.append(message.body)
        if message.body == b"cut" and seen.count(b"cut") == 1:
            shared = asyncio.get_running_loop().create_task(asyncio.Event().wait())
            asyncio.get_running_loop().call_soon(shared.cancel)
            await shared

    push = consumer(broker, orderly=orderly, orderly_pause=0.01)
    push.subscribe("T", "*", listen)
    async with push:
        broker.on_loop(lambda: [broker.store("T", 0, body, "") for body in (b"cut", b"behind")])
        await until(lambda: push.position(Q0) == 2, "both messages to end")
    assert seen == ([b"cut", b"cut", b"behind"] if orderly else [b"cut", b"behind"])
    assert len(broker.requests(codes.CONSUMER_SEND_MSG_BACK)) == (0 if orderly else 1)
    assert broker.offsets["G", "T", 0] == 2


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("orderly", [False, True])
async def test_a_message_whose_worker_is_cancelled_is_given_out_again(
    orderly: bool, waits: bool, broker: ScriptedBroker
) -> None:
    seen: list[bytes] = []

    async def listen(message: ReceivedMessage) -> None:
        seen.append(message.body)
        if len(seen) == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            if not waits:
                raise asyncio.CancelledError
            await asyncio.Event().wait()

    push = consumer(broker, orderly=orderly)
    push.subscribe("T", "*", listen)
    async with push:
        broker.on_loop(lambda: [broker.store("T", 0, body, "") for body in (b"cut", b"behind")])
        await until(lambda: push.position(Q0) == 2, "both messages to end")
    assert seen == [b"cut", b"cut", b"behind"] if orderly else sorted(seen) == [b"behind", b"cut", b"cut"]
    assert not broker.requests(codes.CONSUMER_SEND_MSG_BACK)


@pytest.mark.parametrize("in_the_end", [None, False])
async def test_a_late_call_ends_the_messages_that_no_broker_took_back(
    in_the_end: bool | None, broker: ScriptedBroker
) -> None:
    go_on = asyncio.Event()
    asked: list[bytes] = []

    async def listen(message: ReceivedMessage) -> bool | None:
        asked.append(message.body)
        await go_on.wait()
        return in_the_end

    refuse_copies(broker)
    push = consumer(broker, consume_timeout=0.1)
    push.subscribe("T", "*", listen)
    async with push:
        broker.on_loop(lambda: broker.store("T", 0, b"slow", ""))
        await until(lambda: broker.requests(codes.SEND_MESSAGE_V2), "the message to be refused as late")
        assert push.position(Q0) < 1
        broker.script.clear()
        go_on.set()
        await until(lambda: push.position(Q0) == 1, "the message to end")
    assert asked == [b"slow"]
    assert len(broker.requests(codes.CONSUMER_SEND_MSG_BACK)) == (1 if in_the_end is None else 2)


async def test_a_late_message_that_no_broker_took_back_is_offered_again(broker: ScriptedBroker) -> None:
    refuse_copies(broker)
    release = asyncio.Event()
    push = consumer(broker, consume_timeout=0.1)

    async def listen(message: ReceivedMessage) -> None:
        await release.wait()

    push.subscribe("T", "*", listen)
    async with push:
        broker.on_loop(lambda: broker.store("T", 0, b"stuck", ""))
        await until(lambda: broker.requests(codes.SEND_MESSAGE_V2), "the message to be refused as late")
        broker.script.clear()
        await until(lambda: push.position(Q0) == 1, "the message to be taken back")
        release.set()


@pytest.mark.parametrize("shape", ["async", "task", "plain"])
@pytest.mark.parametrize("orderly", [False, True])
async def test_a_listener_may_close_its_consumer(shape: str, orderly: bool, broker: ScriptedBroker) -> None:
    closed: list[str] = []
    push = consumer(broker, orderly=orderly)
    loop = asyncio.get_running_loop()

    async def in_loop(message: ReceivedMessage) -> None:
        await (push.close() if shape == "async" else loop.create_task(push.close()))
        closed.append("async")

    def in_thread(message: ReceivedMessage) -> None:
        asyncio.run_coroutine_threadsafe(push.close(), loop).result(PATIENCE)
        closed.append("plain")

    push.subscribe("T", "*", in_thread if shape == "plain" else in_loop)
    await push.start()
    broker.on_loop(lambda: broker.store("T", 0, b"enough", ""))
    await until(lambda: closed, "the listener to go on")
    await push.close()
    assert broker.offsets["G", "T", 0] == 1
    assert not broker.members["G"]


@pytest.mark.parametrize("shape", ["async", "plain"])
@pytest.mark.parametrize("orderly", [False, True])
async def test_a_listener_may_unsubscribe(shape: str, orderly: bool, broker: ScriptedBroker) -> None:
    held: list[list[MessageQueue]] = []
    push = consumer(broker, orderly=orderly)
    loop = asyncio.get_running_loop()

    async def in_loop(message: ReceivedMessage) -> None:
        await push.unsubscribe("T")
        held.append(push.assignment())

    def in_thread(message: ReceivedMessage) -> None:
        asyncio.run_coroutine_threadsafe(in_loop(message), loop).result(PATIENCE)

    push.subscribe("T", "*", in_thread if shape == "plain" else in_loop)
    async with push:
        broker.on_loop(lambda: broker.store("T", 0, b"last", ""))
        await until(lambda: held, "the listener to continue")
        assert Q0 in held[0]
        await until(lambda: not push.assignment(), "the queues to be given back")
        assert broker.offsets["G", "T", 0] == 1
        push.subscribe("T", "*", lambda message: None)
        await until(lambda: Q0 in push.assignment(), "the topic to be held again")


@pytest.mark.parametrize(
    "wait", [lambda push: push.drain(), lambda push: push.seek(Q0, 0), lambda push: push.seek_to_begin([Q0])]
)
async def test_waiting_for_listeners_inside_a_listener_is_rejected(
    wait: Callable[[Any], Any], broker: ScriptedBroker
) -> None:
    said: list[str] = []
    push = consumer(broker)

    async def listen(message: ReceivedMessage) -> None:
        try:
            await wait(push)
        except ClientStateError as error:
            said.append(str(error))

    push.subscribe("T", "*", listen)
    async with push:
        broker.on_loop(lambda: broker.store("T", 0, b"x", ""))
        await until(lambda: said, "the listener to be refused")
    assert "waits for the listeners of consumer G" in said[0]
