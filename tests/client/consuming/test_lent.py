"""Iteration over the messages of a pull consumer: messages requested in advance, and consumed messages."""

from __future__ import annotations

import asyncio

import pytest
from librt.strings import BytesWriter

from bolide.client import ArgumentError, ReceivedMessage
from bolide.client.consuming.lent import Lent
from bolide.client.consuming.process_queue import ProcessQueue
from bolide.client.consuming.pull_consumer import LENT
from bolide.client.tracing.interceptor import ConsumeCall, Interceptor
from bolide.layout.record import decode_record
from bolide.remoting import codes
from proof.kit.waiting import until, wait_until
from tests.client import patient_blocking
from tests.client.consumer_parts import Q0, Q1, fill, pull_consumer
from tests.client.patient import PullConsumer
from tests.client.scripted_broker import ScriptedBroker
from tests.layout.records import put_record


def stored(offset: int) -> ReceivedMessage:
    w = BytesWriter()
    put_record(w, "T", b"body", b"", queue_offset=offset)
    return ReceivedMessage(decode_record(w.getvalue(), 0), "broker-a")


async def lent_to(consumer: PullConsumer, broker: ScriptedBroker, count: int) -> None:
    """Assign both queues, and wait until `count` messages can be requested at the same time."""
    fill(broker, count)
    await consumer.assign([Q0, Q1])
    await until(lambda: sum(each.cached_count for each in consumer._member.owned.values()) == count, "the prefetch")


def test_caller_and_owner_share_the_messages() -> None:
    first, second = ProcessQueue(Q0), ProcessQueue(Q1)
    ones, twos = [stored(offset) for offset in range(3)], [stored(offset) for offset in range(2)]
    lent = Lent([*ones, *twos], [(first, ones), (second, twos)])
    assert lent.consumed() == []
    assert [next(lent), next(lent)] == ones[:2]
    assert lent.consumed() == [(first, 1)]
    assert [next(lent), next(lent)] == [ones[2], twos[0]]
    assert lent.consumed() == [(first, -1)]
    assert lent.take_back() == twos[1:]
    assert list(lent) == []
    assert lent.consumed() == [(first, -1)]


async def test_messages_that_an_iterator_did_not_return_are_polled(broker: ScriptedBroker) -> None:
    async with pull_consumer(broker) as consumer:
        await lent_to(consumer, broker, 20)
        async for first in consumer:
            assert first.queue_offset == 0
            break
        assert consumer.position(first.queue) == 1
        rest = await consumer.poll(max_messages=100)
        assert sum((await consumer.lag()).values()) == 19
    assert sorted(int(message.body) for message in [first, *rest]) == list(range(20))


async def test_without_auto_commit_a_poll_continues_after_the_iteration(broker: ScriptedBroker) -> None:
    async with pull_consumer(broker, auto_commit=False) as consumer:
        await lent_to(consumer, broker, 20)
        first = await anext(aiter(consumer))
        rest = await consumer.poll(max_messages=100)
        assert [message.queue_offset for message in rest if message.queue == first.queue] == list(range(1, 10))
        assert len(rest) == 19


async def test_lag_excludes_finished_messages_of_an_iterator(broker: ScriptedBroker) -> None:
    async with pull_consumer(broker) as consumer:
        await lent_to(consumer, broker, 20)
        seen = 0
        async for _ in consumer:
            assert sum((await consumer.lag()).values()) == 20 - seen
            seen += 1
            if seen == 20:
                break


async def test_close_stores_only_what_an_iterator_returned(broker: ScriptedBroker) -> None:
    async with pull_consumer(broker) as consumer:
        await lent_to(consumer, broker, 20)
        seen = []
        async for message in consumer:
            seen.append(message)
            if len(seen) == 3:
                break
    queue_id = seen[0].queue_id
    assert broker.offsets["G", "T", queue_id] == 3
    assert broker.offsets.get(("G", "T", 1 - queue_id), 0) == 0


async def test_an_error_in_the_loop_leaves_its_message_unconsumed(broker: ScriptedBroker) -> None:
    seen = []
    with pytest.raises(ZeroDivisionError):
        async with pull_consumer(broker) as consumer:
            await lent_to(consumer, broker, 20)
            async for message in consumer:
                seen.append(message)
                if len(seen) == 3:
                    raise ZeroDivisionError
    assert broker.offsets["G", "T", seen[0].queue_id] == 2


async def test_close_ends_the_iteration(broker: ScriptedBroker) -> None:
    seen = []
    consumer = await pull_consumer(broker).start()
    await lent_to(consumer, broker, 20)
    async for message in consumer:
        seen.append(message)
        if len(seen) == 3:
            await consumer.close()
    assert len(seen) == 3
    assert broker.offsets["G", "T", seen[0].queue_id] == 3


async def test_iteration_ends_when_close_begins(broker: ScriptedBroker) -> None:
    consumer = await pull_consumer(broker).start()
    await lent_to(consumer, broker, 20)
    iterator = aiter(consumer)
    first = await anext(iterator)
    closing = asyncio.ensure_future(consumer.close())
    await asyncio.sleep(0)
    assert [message async for message in iterator] == []
    await closing
    assert broker.offsets["G", "T", first.queue_id] == 1


async def test_commit_includes_the_message_that_the_caller_has(broker: ScriptedBroker) -> None:
    async with pull_consumer(broker, auto_commit=False) as consumer:
        await lent_to(consumer, broker, 20)
        seen = []
        async for message in consumer:
            seen.append(message)
            if len(seen) == 3:
                await consumer.commit()
                assert await consumer.committed(message.queue) == 3
            if len(seen) == 20:
                break
    assert broker.offsets["G", "T", seen[0].queue_id] == 3
    assert sorted(int(message.body) for message in seen) == list(range(20))


async def test_offsets_of_a_slow_loop_are_stored_at_the_interval(broker: ScriptedBroker) -> None:
    async with pull_consumer(broker, persist_interval=0.05) as consumer:
        await lent_to(consumer, broker, 20)
        iterator = aiter(consumer)
        *_, third = [await anext(iterator) for _ in range(3)]
        key = ("G", "T", third.queue_id)
        await until(lambda: broker.offsets.get(key) == 2, "the offset of the third message")


async def test_messages_of_a_paused_or_moved_queue_are_not_returned(broker: ScriptedBroker) -> None:
    async with pull_consumer(broker) as consumer:
        await lent_to(consumer, broker, 20)
        seen: list[ReceivedMessage] = []
        async for message in consumer:
            seen.append(message)
            if len(seen) == 2:
                queue = message.queue
                consumer.pause([queue])
            elif len(seen) == 4:
                await consumer.seek(queue, 8)
                consumer.resume()
            elif len(seen) == 14:
                break
    other = {Q0: Q1, Q1: Q0}[queue]
    assert [message.queue for message in seen[:4]] == [queue, queue, other, other]
    assert [message.queue_offset for message in seen if message.queue == queue] == [0, 1, 8, 9]
    assert [message.queue_offset for message in seen if message.queue == other] == list(range(10))


async def test_a_seek_ends_what_was_requested_in_advance(broker: ScriptedBroker) -> None:
    async with pull_consumer(broker) as consumer:
        await lent_to(consumer, broker, 20)
        seen: list[ReceivedMessage] = []
        async for message in consumer:
            seen.append(message)
            if len(seen) == 1:
                await consumer.seek(message.queue, 8)
            if len(seen) == 13:
                break
    assert [message.queue_offset for message in seen if message.queue == seen[0].queue] == [0, 8, 9]


async def test_messages_that_a_shorter_log_lacks_are_not_returned(broker: ScriptedBroker) -> None:
    def lose() -> None:
        del broker.stored["T", 0][2:]

    broker.on_loop(lambda: [broker.store("T", 0, b"%d" % number, "") for number in range(4)])
    async with pull_consumer(broker) as consumer:
        await consumer.assign([Q0])
        await until(lambda: consumer._member.owned[Q0].cached_count == 4, "the prefetch")
        iterator = aiter(consumer)
        assert (await anext(iterator)).body == b"0"
        broker.on_loop(lose)
        broker.cut()
        await until(lambda: consumer._member.owned[Q0].cached_count == 2, "the prefetch from the first message")
        assert [(await anext(iterator)).body, (await anext(iterator)).body] == [b"0", b"1"]


async def test_messages_of_a_released_queue_are_not_returned(broker: ScriptedBroker) -> None:
    async with pull_consumer(broker) as consumer:
        await lent_to(consumer, broker, 20)
        seen = []
        async for message in consumer:
            seen.append(message)
            if len(seen) == 2:
                lost = message.queue
                await consumer.assign([Q1 if lost == Q0 else Q0])
                assert broker.offsets["G", "T", lost.queue_id] == 1
            if len(seen) == 12:
                break
    assert [message.queue == lost for message in seen] == [True, True] + [False] * 10


async def test_a_cancelled_iteration_keeps_all_messages(broker: ScriptedBroker) -> None:
    seen: list[int] = []
    async with pull_consumer(broker) as consumer:
        await consumer.assign([Q0, Q1])

        async def read() -> None:
            async for message in consumer:
                seen.append(int(message.body))

        for _ in range(2):
            task = asyncio.ensure_future(read())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        fill(broker, 20)
        task = asyncio.ensure_future(read())
        await until(lambda: len(seen) == 20, "all messages")
        task.cancel()
        await asyncio.wait([task])
    assert sorted(seen) == list(range(20))


async def test_an_interceptor_sees_each_message_when_the_caller_gets_it(broker: ScriptedBroker) -> None:
    calls: list[list[int]] = []

    class See(Interceptor):
        def before_consume(self, call: ConsumeCall) -> None:
            calls.append([int(message.body) for message in call.messages])

    async with pull_consumer(broker, interceptors=(See(),)) as consumer:
        await lent_to(consumer, broker, 6)
        seen = []
        async for message in consumer:
            seen.append([int(message.body)])
            assert calls == seen
            if len(seen) == 6:
                break


async def test_a_list_is_consumed_when_the_next_is_requested(broker: ScriptedBroker) -> None:
    async with pull_consumer(broker) as consumer:
        await lent_to(consumer, broker, 20)
        seen: list[list[ReceivedMessage]] = []
        async for messages in consumer.batches(8):
            if len(seen) == 2:
                assert sum((await consumer.lag()).values()) == 20 - 16
                break
            seen.append(messages)
        with pytest.raises(ArgumentError, match="max_messages"):
            consumer.batches(0)
    assert [len(messages) for messages in seen] == [8, 8]
    assert sum(offset for (group, _, _), offset in broker.offsets.items() if group == "G") == 20


async def test_an_error_in_the_loop_leaves_its_batch_unconsumed(broker: ScriptedBroker) -> None:
    with pytest.raises(ZeroDivisionError):
        async with pull_consumer(broker) as consumer:
            await lent_to(consumer, broker, 20)
            async for _ in consumer.batches(20):
                raise ZeroDivisionError
    assert not any(offset for (group, _, _), offset in broker.offsets.items() if group == "G")


async def test_close_ends_batches(broker: ScriptedBroker) -> None:
    consumer = await pull_consumer(broker).start()
    await lent_to(consumer, broker, 20)
    seen = 0
    async for messages in consumer.batches(8):
        seen += len(messages)
        await consumer.close()
    assert seen == 8
    assert sum(offset for (group, _, _), offset in broker.offsets.items() if group == "G") == 8


# -- on the caller's thread


def test_blocking_iterator_needs_one_hop_for_many_messages(broker: ScriptedBroker) -> None:
    fill(broker, 2 * LENT)
    with patient_blocking.PullConsumer("G", broker.address, start_from="first", suspend=0.5) as consumer:
        consumer.subscribe("T")
        owned = consumer._native._member.owned
        wait_until(lambda: sum(each.cached_count for each in owned.values()) == 2 * LENT, "the prefetch")
        hops, polls = [], consumer._native.poll

        async def counted(timeout: float = 5.0, max_messages: int = 32) -> list[ReceivedMessage]:
            hops.append(max_messages)
            return await polls(timeout, max_messages)

        consumer._native.poll = counted  # type: ignore[method-assign]  # counts its calls
        seen = []
        for message in consumer:
            seen.append(message)
            if len(seen) == 2 * LENT:
                break
        assert hops == [LENT, LENT]
    assert sorted(int(message.body) for message in seen) == list(range(2 * LENT))
    assert (broker.offsets["G", "T", 0], broker.offsets["G", "T", 1]) == (LENT, LENT)


def test_blocking_iterator_continues_after_a_poll(broker: ScriptedBroker) -> None:
    fill(broker, 20)
    with patient_blocking.PullConsumer("G", broker.address, start_from="first", suspend=0.5) as consumer:
        consumer.subscribe("T")
        iterator = iter(consumer)
        seen = [next(iterator), next(iterator)]
        while len(seen) < 20:
            seen += consumer.poll(max_messages=3)
        consumer.commit()
        fill(broker, 2)
        seen += [next(iterator), next(iterator)]
    assert sorted(int(message.body) for message in seen) == sorted([*range(20), 0, 1])
    assert (broker.offsets["G", "T", 0], broker.offsets["G", "T", 1]) == (11, 11)


def test_blocking_batches(broker: ScriptedBroker) -> None:
    fill(broker, 20)
    seen: list[int] = []
    with patient_blocking.PullConsumer("G", broker.address, start_from="first", suspend=0.5) as consumer:
        consumer.subscribe("T")
        for messages in consumer.batches():
            seen += [int(message.body) for message in messages]
            if len(seen) == 20:
                break
    assert sorted(seen) == list(range(20))
    assert not broker.requests(codes.PULL_MESSAGE)
