"""Filters of the consumer: what they drop is not delivered and counts as consumed."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.client import ArgumentError, MessageQueue, PullConsumer, PushConsumer, ReceivedMessage
from proof.kit.waiting import until
from tests.client.consumer_parts import Q0, consumer, fill, pull_consumer
from tests.client.messages.escapes import ESCAPES
from tests.client.scripted_broker import ScriptedBroker


def even(message: ReceivedMessage) -> bool:
    return int(message.value) % 2 == 0


def small(message: ReceivedMessage) -> bool:
    return int(message.body) < 6


async def test_a_push_consumer_gets_what_every_filter_wants_and_the_rest_counts_as_consumed(
    broker: ScriptedBroker,
) -> None:
    seen: list[bytes] = []
    push = consumer(broker, filters=(even, small), codec="json")
    push.subscribe("T", "*", lambda message: seen.append(message.body))
    async with push:
        broker.on_loop(lambda: [broker.store("T", 0, b"%d" % number, "") for number in range(8)])
        await until(lambda: push.position(MessageQueue("T", "broker-a", 0)) == 8, "all of them")
    assert sorted(seen) == [b"0", b"2", b"4"]
    assert broker.offsets["G", "T", 0] == 8


async def test_a_pull_consumer_drops_what_a_filter_does_not_want(broker: ScriptedBroker) -> None:
    fill(broker, 8)  # 0, 2, 4, 6 in the first queue
    async with pull_consumer(broker, filters=(small,)) as reader:
        await reader.assign([Q0])
        assert [message.body for message in await reader.poll()] == [b"0", b"2", b"4"]
        assert [message.body for message in (await reader.pull(Q0, 1)).messages] == [b"2", b"4"]


@pytest.mark.parametrize("kind", [ZeroDivisionError, *ESCAPES])
async def test_a_filter_that_fails_drops_nothing(
    kind: type[BaseException], caplog: pytest.LogCaptureFixture, broker: ScriptedBroker
) -> None:
    fill(broker, 2)

    def broken(message: ReceivedMessage) -> bool:
        raise kind

    async with pull_consumer(broker, filters=(broken,)) as reader:
        await reader.assign([Q0])
        assert len(await reader.poll()) == 1
    assert "which is delivered" in caplog.text


@pytest.mark.parametrize("kind", [PushConsumer, PullConsumer])
def test_invalid_filter_is_rejected(kind: Any) -> None:
    with pytest.raises(ArgumentError, match="give a function of"):
        kind("G", filters=("even",))


async def late(message: ReceivedMessage) -> bool:
    return False


@pytest.mark.parametrize("kind", [PushConsumer, PullConsumer])
@pytest.mark.parametrize(("filters", "said"), [((late,), "is async"), (even, "give a tuple of functions")])
def test_an_async_filter_and_one_outside_a_tuple_are_refused(kind: Any, filters: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        kind("G", filters=filters)
