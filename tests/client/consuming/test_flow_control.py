"""Flow control: pulls wait for room, and a warning names the queue and the limit, but not each time."""

from __future__ import annotations

import asyncio

import pytest

from bolide.client import ReceivedMessage
from bolide.client.consuming.flow_control import CachedMessages, QueueRoom
from bolide.client.consuming.flow_options import FlowControl
from bolide.client.consuming.process_queue import ProcessQueue
from bolide.client.messages.queue import MessageQueue
from proof.kit.waiting import PATIENCE, until
from tests.client.consumer_parts import consumer, pull_consumer
from tests.client.scripted_broker import ScriptedBroker
from tests.layout.records import record_of


def message(queue_offset: int) -> ReceivedMessage:
    return ReceivedMessage(record_of("T", b"four", queue_offset=queue_offset), "b")


def full_queue(queue_id: int = 0, topic: str = "T") -> ProcessQueue:
    queue = ProcessQueue(MessageQueue(topic, "b", queue_id))
    queue.max_count = 2
    queue.add([message(0), message(1)])
    return queue


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "pauses pulls of" in record.getMessage()]


@pytest.mark.parametrize(
    ("flow", "shown"),
    [
        (FlowControl(max_cached=2), "max_cached 2 is reached (2 messages, 8 bytes, offsets 0 to 9)"),
        (FlowControl(max_cached_bytes=8), "max_cached_bytes 8 is reached"),
        (FlowControl(max_span=5), "max_span 5 is reached"),
        (FlowControl(max_cached_for_topic=4), "max_cached_for_topic, of which this queue has 2, is reached"),
        (
            FlowControl(max_cached_bytes_for_topic=10),
            "max_cached_bytes_for_topic, of which this queue has 5, is reached",
        ),
    ],
)
async def test_warning_names_queue_and_limit(flow: FlowControl, shown: str, caplog: pytest.LogCaptureFixture) -> None:
    queue = ProcessQueue(MessageQueue("T", "b", 3))
    messages = [message(0), message(9)]
    queue.add(messages)
    queue.limit(flow, 2)
    waiting = asyncio.ensure_future(QueueRoom("G").wait_for_room(queue))
    await asyncio.sleep(0)
    (warning,) = warnings(caplog)
    assert warning.startswith(f"group G pauses pulls of {queue.queue}: {shown}")
    assert not waiting.done()
    queue.done(messages)
    await asyncio.wait_for(waiting, PATIENCE)


async def test_queue_with_room_is_pulled_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    await QueueRoom("G").wait_for_room(ProcessQueue(MessageQueue("T", "b", 0)))
    assert warnings(caplog) == []


async def test_each_limit_is_warned_about_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    control = QueueRoom("G")
    first, second, third = full_queue(0), full_queue(1), full_queue(2)
    third.max_count, third.max_bytes = 9, 1
    waiting = [asyncio.ensure_future(control.wait_for_room(queue)) for queue in (first, second, third)]
    await asyncio.sleep(0)
    assert ["max_cached_bytes" in warning for warning in warnings(caplog)] == [False, True]
    for queue in (first, second, third):
        queue.drop()
    await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE)


async def test_queue_that_stays_full_is_warned_about_again(caplog: pytest.LogCaptureFixture) -> None:
    queue = full_queue()
    waiting = asyncio.ensure_future(QueueRoom("G", warn_every=0.01).wait_for_room(queue))
    await until(lambda: len(warnings(caplog)) >= 3, "two more warnings")
    assert "2 times so far" in warnings(caplog)[1]
    assert not waiting.done()
    queue.drop()
    await asyncio.wait_for(waiting, PATIENCE)


def test_paused_queues_are_counted_by_topic() -> None:
    full, other, free = full_queue(), full_queue(topic="N%U"), ProcessQueue(MessageQueue("T", "b", 1))
    cached = CachedMessages({queue.queue: queue for queue in (full, other, free)}, "N")
    assert cached() == {"T": (2, 8), "U": (2, 8)}
    assert cached.paused() == {"T": 1, "U": 1}
    full.drop()
    assert cached.paused() == {"T": 0, "U": 1}


async def test_push_consumer_with_slow_listeners_says_so(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    release = asyncio.Event()
    seen: list[bytes] = []

    async def hold(message: ReceivedMessage) -> None:
        await release.wait()
        seen.append(message.body)

    broker.on_loop(lambda: [broker.store("T", 0, b"x", "") for _ in range(4)])
    push = consumer(broker, flow=FlowControl(pull_batch=1, max_cached=2))
    push.subscribe("T", "*", hold)
    async with push:
        await until(lambda: bool(warnings(caplog)), "the warning")
        release.set()
        await until(lambda: len(seen) == 4, "all of it")


async def test_pull_consumer_that_is_not_polled_says_so(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.on_loop(lambda: [broker.store("T", 0, b"x", "") for _ in range(4)])
    async with pull_consumer(broker, flow=FlowControl(pull_batch=1, max_cached=2)) as pulls:
        pulls.subscribe("T")
        await until(lambda: bool(warnings(caplog)), "the warning")
        found: list[ReceivedMessage] = []
        while len(found) < 4:
            found += await pulls.poll()
