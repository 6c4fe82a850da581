"""The queue listener of a consumer: when it is called, what it may call, and what happens if it raises."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from bolide.client import ArgumentError, ClientStateError, MessageQueue, QueueListener
from bolide.remoting import codes
from proof.kit.waiting import PROCESS_PATIENCE, until
from tests.client.consumer_parts import Q0, Q1, consumer, fill, pull_consumer
from tests.client.messages.escapes import ESCAPES
from tests.client.scripted_broker import ScriptedBroker


class Noted(QueueListener):
    """Notes its calls, and what the broker had seen by then."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.calls: list[tuple[str, list[MessageQueue]]] = []
        self.pulls = -1

    async def assigned(self, queues: list[MessageQueue]) -> None:
        self.calls.append(("assigned", queues))
        self.pulls = len(self.broker.requests(codes.PULL_MESSAGE))

    async def revoked(self, queues: list[MessageQueue]) -> None:
        self.calls.append(("revoked", queues))


async def test_queues_are_assigned_before_the_first_pull_and_revoked_at_the_close(broker: ScriptedBroker) -> None:
    noted = Noted(broker)
    push = consumer(broker, queue_listener=noted)
    push.subscribe("T", "*", lambda message: None)
    async with push:
        assert noted.calls == [("assigned", [Q0, Q1])]  # without the retry topic
        assert noted.pulls == 0
    assert noted.calls[1:] == [("revoked", [Q0]), ("revoked", [Q1])]


async def test_a_pull_consumer_may_commit_what_it_returned_when_a_queue_is_revoked(broker: ScriptedBroker) -> None:
    fill(broker, 2)

    class Committing(Noted):
        async def revoked(self, queues: list[MessageQueue]) -> None:
            await pull.commit()

    pull = pull_consumer(broker, queue_listener=Committing(broker), auto_commit=False)
    async with pull:
        await pull.assign([Q0])
        assert len(await pull.poll()) == 1
        await pull.assign([Q1])
        assert broker.offsets["G", "T", 0] == 1


async def test_a_consumer_may_commit_in_its_queue_listener_while_it_closes(broker: ScriptedBroker) -> None:
    fill(broker, 2)
    positions: list[int] = []

    class Committing(Noted):
        async def revoked(self, queues: list[MessageQueue]) -> None:
            positions.extend(map(pull.position, queues))
            await pull.commit()

    pull = pull_consumer(broker, queue_listener=Committing(broker), auto_commit=False)
    async with pull:
        await pull.assign([Q0])
        assert len(await pull.poll(max_messages=1)) == 1
    assert broker.offsets["G", "T", 0] == 1
    assert len(positions) == 1
    with pytest.raises(ClientStateError, match="not running"):
        await pull.commit()


async def test_a_consumer_that_its_queue_listener_closes_at_the_start_is_closed(broker: ScriptedBroker) -> None:
    class Closing(Noted):
        async def assigned(self, queues: list[MessageQueue]) -> None:
            await push.close()

    push = consumer(broker, queue_listener=Closing(broker))
    push.subscribe("T", "*", lambda message: None)
    await push.start()
    assert repr(push).endswith("closed>")
    await push.close()
    await until(lambda: not push.assignment(), "the queues to be given back")


@pytest.mark.parametrize("make", [consumer, pull_consumer])
async def test_a_queue_listener_that_starts_its_consumer_does_not_wait_for_itself(
    broker: ScriptedBroker, make: Any
) -> None:
    started: list[Any] = []

    class Starting(Noted):
        async def assigned(self, queues: list[MessageQueue]) -> None:
            started.append(await made.start())

    made = make(broker, queue_listener=Starting(broker))
    made.subscribe("T", "*", *([lambda message: None] if make is consumer else []))
    async with asyncio.timeout(PROCESS_PATIENCE), made:
        assert started == [made]


async def test_a_pull_consumer_may_seek_in_queues_that_it_was_assigned(broker: ScriptedBroker) -> None:
    fill(broker, 6)

    class Seeking(Noted):
        async def assigned(self, queues: list[MessageQueue]) -> None:
            for queue in queues:
                await pull.seek(queue, 2)

    pull = pull_consumer(broker, queue_listener=Seeking(broker))
    pull.subscribe("T")
    async with pull:
        got = [message.queue_offset for message in await pull.poll()]
        assert set(got) == {2}


async def test_a_listener_that_raises_is_logged_and_the_queues_are_read(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(QueueListener):
        def assigned(self, queues: list[MessageQueue]) -> None:  # not async: runs in a thread
            raise OSError("no cache")

    seen: list[bytes] = []
    push = consumer(broker, queue_listener=Failing())
    push.subscribe("T", "*", lambda message: seen.append(message.body))
    fill(broker, 1)
    with caplog.at_level(logging.ERROR, "bolide.client"):
        async with push:
            await until(lambda: seen == [b"0"], "the message")
    assert "the queue listener of group G failed" in caplog.text


@pytest.mark.parametrize("kind", ESCAPES)
@pytest.mark.parametrize("style", ["plain", "async"])
async def test_whatever_a_queue_listener_raises_the_queues_are_read_and_revoked(
    style: str, kind: type[BaseException], broker: ScriptedBroker
) -> None:
    calls: list[str] = []

    class Plain(QueueListener):
        def assigned(self, queues: list[MessageQueue]) -> Any:
            calls.append("assigned")
            raise kind

        def revoked(self, queues: list[MessageQueue]) -> Any:
            calls.append("revoked")
            raise kind

    class Async(Plain):
        async def assigned(self, queues: list[MessageQueue]) -> Any:
            super().assigned(queues)

        async def revoked(self, queues: list[MessageQueue]) -> Any:
            super().revoked(queues)

    seen: list[bytes] = []
    push = consumer(broker, queue_listener=Plain() if style == "plain" else Async())
    push.subscribe("T", "*", lambda message: seen.append(message.body))
    fill(broker, 1)
    async with asyncio.timeout(PROCESS_PATIENCE):
        async with push:
            await until(lambda: seen == [b"0"], "the message")
        assert calls == ["assigned", "revoked", "revoked"]


async def test_a_queue_listener_may_unsubscribe_and_close_but_not_wait_for_its_rebalance(
    broker: ScriptedBroker,
) -> None:
    caught: list[str] = []

    class Impatient(Noted):
        async def assigned(self, queues: list[MessageQueue]) -> None:
            await push.unsubscribe("T")
            await push.close()
            try:
                await push.seek(Q0, 0)
            except ClientStateError as error:
                caught.append(str(error))

    noted = Impatient(broker)
    push = consumer(broker, queue_listener=noted)
    push.subscribe("T", "*", lambda message: None)
    async with push:
        assert caught[0].startswith("seek waits for the rebalance of consumer G")
        await until(lambda: len(noted.calls) == 2, "the queues to be revoked")


def test_a_listener_without_its_methods_is_refused(broker: ScriptedBroker) -> None:
    listener: Any = object()
    with pytest.raises(ArgumentError, match=r"^queue_listener") as caught:
        consumer(broker, queue_listener=listener)
    assert caught.value.argument == "queue_listener"
