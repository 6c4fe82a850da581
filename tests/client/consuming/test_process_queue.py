"""The offset to commit is that of the oldest message not done; flow control opens and shuts."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from bolide.client.consuming.flow_options import FlowControl
from bolide.client.consuming.process_queue import ProcessQueue
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.received import ReceivedMessage
from proof.kit.waiting import PATIENCE
from tests.layout.records import record_of


def message(queue_offset: int, body: bytes = b"x") -> ReceivedMessage:
    return ReceivedMessage(record_of("T", body, queue_offset=queue_offset), "b")


def process_queue() -> ProcessQueue:
    return ProcessQueue(MessageQueue("T", "b", 0))


@given(st.permutations(range(12)), st.sets(st.integers(0, 30)), st.lists(st.integers(1, 5), min_size=12, max_size=12))
def test_the_commit_offset_is_the_oldest_not_done(order: list[int], gaps: set[int], sizes: list[int]) -> None:
    offsets = [offset for offset in range(12 + len(gaps)) if offset not in gaps][:12]
    queue = process_queue()
    messages = [message(offset) for offset in offsets]
    queue.add(messages)
    left = set(offsets)
    ending = [index for index in order if index < len(messages)]
    for size in sizes:
        run, ending = ending[:size], ending[size:]
        left.difference_update(offsets[index] for index in run)
        offset = queue.done([messages[index] for index in run])
        assert offset == (min(left) if left else offsets[-1] + 1)
        assert queue.done([messages[index] for index in run]) == offset, "a message is done once"
    assert (queue.cached_count, queue.cached_bytes) == (0, 0)


async def test_messages_done_in_their_order_make_room() -> None:
    queue = process_queue()
    queue.max_count = 2
    messages = [message(0, b"xx"), message(1), message(5)]
    queue.add(messages)
    room = asyncio.create_task(queue.wait_for_room())
    empty = asyncio.create_task(queue.wait_empty())
    await asyncio.sleep(0)
    assert [queue.done([messages[0]]), queue.cached_count, queue.cached_bytes] == [1, 2, 2]
    await asyncio.sleep(0)
    assert not room.done()
    assert queue.done([messages[1]]) == 5
    async with asyncio.timeout(PATIENCE):
        await room
    assert queue.done([messages[0]]) == 5
    assert not empty.done()
    assert [queue.done([messages[2]]), queue.cached_bytes] == [6, 0]
    await empty


def test_empty_pull_moves_offset_only_with_an_empty_cache() -> None:
    queue = process_queue()
    assert queue.commit_offset == -1
    assert queue.moved_to(7)
    assert queue.commit_offset == 7
    first = message(7)
    queue.add([first])
    assert not queue.moved_to(20)
    assert queue.done([first]) == 8


def test_a_queue_that_was_moved_back_is_read_again_from_what_is_not_done() -> None:
    queue = process_queue()
    assert queue.restart_at(9, 5) == 5, "nothing was pulled"
    messages = [message(offset) for offset in range(5, 9)]
    queue.add(messages)
    queue.done([messages[0], messages[2]])
    assert queue.restart_at(9, 8) == 6
    assert queue.restart_at(9, 3) == 3
    assert queue.restart_at(9, 20) == 20, "retention, or an operator, moved it ahead"
    queue.done(messages)
    assert queue.restart_at(9, 8) == 8


async def test_flow_control_shuts_by_count_bytes_and_span() -> None:
    for limit in ("max_count", "max_bytes", "max_span"):
        queue = process_queue()
        setattr(queue, limit, 2)
        messages = [message(0, b"xx"), message(1), message(9)]
        queue.add(messages)
        waiting = asyncio.create_task(queue.wait_for_room())
        await asyncio.sleep(0)
        assert not waiting.done(), limit
        queue.done(messages)
        await asyncio.wait_for(waiting, PATIENCE)


async def test_dropped_queue_releases_its_waiters() -> None:
    queue = process_queue()
    queue.max_count = 1
    queue.add([message(0), message(1)])
    queue.drop()
    await asyncio.wait_for(queue.wait_for_room(), PATIENCE)
    await asyncio.wait_for(queue.wait_empty(), PATIENCE)  # a drain no longer waits for it


def topic_flow(count: int, size: int) -> FlowControl:
    return FlowControl(max_cached_bytes=100, max_cached_for_topic=count, max_cached_bytes_for_topic=size)


async def test_limits_of_a_topic_are_shared_by_the_queues_held() -> None:
    queue = process_queue()
    queue.limit(topic_flow(-1, -1), 4)
    assert (queue.max_count, queue.max_bytes, queue.max_span) == (1000, 100, 2000)
    queue.limit(topic_flow(10, 7), 4)
    assert (queue.max_count, queue.max_bytes) == (2, 1)
    queue.limit(topic_flow(1, 1), 4)
    assert (queue.max_count, queue.max_bytes) == (1, 1)
    queue.limit(topic_flow(1, 1), 0)
    assert (queue.max_count, queue.max_bytes) == (1, 1)
    queue.limit(topic_flow(2, -1), 2)
    queue.add([message(0)])
    waiting = asyncio.ensure_future(queue.wait_for_room())
    await asyncio.sleep(0)
    assert not waiting.done()  # one of one
    queue.limit(topic_flow(2, -1), 1)
    await waiting


def test_a_pull_requests_no_more_than_the_cache_may_hold_or_a_small_pull() -> None:
    queue = process_queue()
    for cached, batch, count in ((1000, 256, 256), (100, 256, 100), (10, 256, 32), (10, 3, 3)):
        flow = FlowControl(max_cached=cached, pull_batch=batch)
        queue.limit(flow, 1)
        assert queue.pull_count(flow) == count


def test_messages_given_out_leave_the_cache_and_are_committed_when_consumed() -> None:
    queue = process_queue()
    queue.max_count = 2
    messages = [message(offset) for offset in range(4)]
    queue.add(messages[:2])
    queue.give_out(messages[:1])
    queue.give_out(messages[1:2])
    assert (queue.cached_count, queue.cached_bytes, queue.limit_reached(), queue.commit_offset) == (0, 0, "", 0)
    assert not queue.moved_to(9), "what is given out is not consumed"
    queue.add(messages[2:])
    assert queue.restart_at(4, 3) == 0
    assert [queue.consumed(), queue.commit_offset] == [2, 2]
    queue.give_out(messages[2:])
    queue.clear()
    assert queue.commit_offset == -1


def test_messages_that_nobody_received_return_to_the_front_of_the_cache() -> None:
    queue = process_queue()
    messages = [message(offset) for offset in range(4)]
    queue.add(messages)
    queue.waiting.extend(messages[2:])
    queue.give_out(messages[:2])
    queue.take_back(messages[1:2])
    assert (list(queue.waiting), queue.cached_count, queue.commit_offset) == (messages[1:], 3, 0)
    assert queue.consumed() == 1, "the first one was received"
    queue.take_back(messages[:1])
    assert queue.commit_offset == 1, "what is consumed stays away"
    queue.give_out([queue.waiting.popleft()])
    queue.clear()
    queue.take_back(messages[1:2])
    assert (list(queue.waiting), queue.cached_count) == ([], 0)
