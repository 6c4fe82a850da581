"""Steering the queues of a push consumer: flow control, pause, drain, seek, lag."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from bolide.client import ClientStateError, FlowControl, MessageQueue, ReceivedMessage
from bolide.remoting import codes
from proof.kit.waiting import until
from tests.client.consumer_parts import consumer
from tests.client.scripted_broker import ScriptedBroker


async def test_pause_stops_pulling_until_resume(broker: ScriptedBroker) -> None:
    seen: list[bytes] = []
    push = consumer(broker)
    push.subscribe("T", "*", lambda message: seen.append(message.body))
    push.pause()
    async with push:
        broker.on_loop(lambda: broker.store("T", 0, b"x", ""))
        assert not broker.requests(codes.PULL_MESSAGE)
        push.resume()
        await until(lambda: seen == [b"x"], "the message")


async def test_single_queues_pause_and_resume_while_the_others_go_on(broker: ScriptedBroker) -> None:
    seen: list[bytes] = []
    push = consumer(broker)
    push.subscribe("T", "*", lambda message: seen.append(message.body))
    held = MessageQueue("T", "broker-a", 0)
    push.pause([held])
    async with push:
        broker.on_loop(lambda: [broker.store("T", number, b"%d" % number, "") for number in (0, 1)])
        await until(lambda: seen == [b"1"], "the message of the other queue")
        push.pause()
        push.resume([held])
        broker.on_loop(lambda: broker.store("T", 1, b"2", ""))
        await push.commit()
        pulled = {(pull.ext()["topic"], pull.ext()["queueId"]) for pull in broker.requests(codes.PULL_MESSAGE)}
        assert ("T", "0") not in pulled
        push.resume()
        await until(lambda: sorted(seen) == [b"0", b"1", b"2"], "all of it")


async def test_the_position_is_known_from_the_start_and_for_queues_held_only(broker: ScriptedBroker) -> None:
    push = consumer(broker)
    push.subscribe("T", "*", lambda message: None)
    async with push:
        assert push.position(MessageQueue("T", "broker-a", 0)) == 0
        with pytest.raises(ClientStateError, match="is not held by this consumer"):
            push.position(MessageQueue("T", "broker-a", 7))


async def test_the_committed_offset_is_the_brokers_and_the_position_is_the_consumers(broker: ScriptedBroker) -> None:
    push = consumer(broker)
    push.subscribe("T", "*", lambda message: None)
    queue = MessageQueue("T", "broker-a", 0)
    async with push:
        broker.on_loop(lambda: [broker.store("T", 0, b"x", "") for _ in range(3)])
        await until(lambda: push.position(queue) == 3, "three messages")
        await push.commit()
        assert await push.committed(queue) == 3
        assert (await push.begin_offset(queue), await push.end_offset(queue)) == (0, 3)
        before = len(broker.requests(codes.QUERY_CONSUMER_OFFSET))
        await push.committed(queue)
        assert len(broker.requests(codes.QUERY_CONSUMER_OFFSET)) == before + 1


async def test_seek_to_begin_and_end_move_the_queues_named_or_all(broker: ScriptedBroker) -> None:
    seen: list[bytes] = []
    push = consumer(broker)
    push.subscribe("T", "*", lambda message: seen.append(message.body))
    async with push:
        broker.on_loop(lambda: [broker.store("T", number % 2, b"%d" % number, "") for number in range(4)])
        await until(lambda: len(seen) == 4, "four messages")
        await push.seek_to_begin([MessageQueue("T", "broker-a", 1)])
        await until(lambda: sorted(seen[4:]) == [b"1", b"3"], "those of one queue again")
        await push.seek_to_begin()
        await until(lambda: len(seen) == 10, "all of them again")
        push.pause()
        broker.on_loop(lambda: broker.store("T", 0, b"passed over", ""))
        await push.drain()
        await push.seek_to_end()
        push.resume()
        broker.on_loop(lambda: broker.store("T", 0, b"last", ""))
        await until(lambda: seen[-1] == b"last", "what came after the seek")
    assert b"passed over" not in seen


async def test_an_interval_lies_between_pulls_that_bring_messages(broker: ScriptedBroker) -> None:
    times: list[float] = []
    loop = asyncio.get_running_loop()
    push = consumer(broker, flow=FlowControl(pull_batch=1, pull_interval=0.2))
    push.subscribe("T", "*", lambda message: times.append(loop.time()))
    broker.on_loop(lambda: [broker.store("T", 0, b"x", "") for _ in range(4)])
    async with push:
        await until(lambda: len(times) == 4, "four messages")
    assert all(later - earlier > 0.1 for earlier, later in pairwise(times))


@pytest.mark.parametrize(("limit", "ahead"), [(2, {0}), (6, {0, 1, 2}), (-1, set(range(9)))])
async def test_queues_share_the_limit_of_a_topic(limit: int, ahead: set[int], broker: ScriptedBroker) -> None:
    release = asyncio.Event()
    seen: list[bytes] = []

    async def hold(message: ReceivedMessage) -> None:
        await release.wait()
        seen.append(message.body)

    def asked() -> set[int]:
        return {int(pull.ext()["queueOffset"]) for pull in broker.requests(codes.PULL_MESSAGE)}

    broker.on_loop(lambda: [broker.store("T", number % 2, b"%d" % number, "") for number in range(16)])
    push = consumer(broker, flow=FlowControl(pull_batch=1, max_cached_for_topic=limit))
    push.subscribe("T", "*", hold)
    async with push:
        try:
            await until(lambda: asked() >= ahead, "what there is room for")
            for _ in range(3):
                await push.commit()  # the broker has answered what was asked before
            assert asked() == ahead
        finally:
            release.set()
        await until(lambda: len(seen) == 16, "all of it")


async def test_lag_counts_what_a_listener_is_at(broker: ScriptedBroker) -> None:
    release = asyncio.Event()

    async def hold(message: ReceivedMessage) -> None:
        await release.wait()

    broker.on_loop(lambda: [broker.store("T", number % 2, b"%d" % number, "") for number in range(6)])
    push = consumer(broker)
    push.subscribe("T", "*", hold)
    async with push:
        before = await push.lag()
        release.set()
        assert [before[queue] for queue in push.assignment()] == [3, 3]

        def consumed() -> bool:
            return all(push.position(queue) == 3 for queue in push.assignment())

        await until(consumed, "all of it")
        assert set((await push.lag()).values()) == {0}


async def test_drain_leaves_nothing_half_done(broker: ScriptedBroker) -> None:
    release = asyncio.Event()
    seen: list[bytes] = []

    async def hold(message: ReceivedMessage) -> None:
        await release.wait()
        seen.append(message.body)

    broker.on_loop(lambda: [broker.store("T", number % 2, b"%d" % number, "") for number in range(40)])
    push = consumer(broker, flow=FlowControl(pull_batch=3, max_cached=5), concurrency=2)
    push.subscribe("T", "*", hold)
    async with push:
        await until(lambda: len(broker.requests(codes.PULL_MESSAGE)) >= 4, "the first pulls")
        assert not await push.drain(0.01)
        release.set()
        assert await push.drain(60)
        drained = len(seen)
        assert 0 < drained < 40
        assert sum(offset for key, offset in broker.offsets.items() if key[:2] == ("G", "T")) == drained
        asked = len(broker.requests(codes.PULL_MESSAGE))
        await push.commit()
        assert (len(seen), len(broker.requests(codes.PULL_MESSAGE))) == (drained, asked)
        push.resume()
        await until(lambda: len(seen) == 40, "the rest")
    assert sorted(map(int, seen)) == list(range(40))


async def test_a_running_consumer_goes_elsewhere(broker: ScriptedBroker) -> None:
    seen: list[bytes] = []
    broker.on_loop(lambda: [broker.store("T", 0, b"%d" % number, "") for number in range(6)])
    push = consumer(broker)
    push.subscribe("T", "*", lambda message: seen.append(message.body))
    async with push:
        await until(lambda: len(seen) == 6, "all of it")
        queue = push.assignment()[0]
        await push.seek(queue, 4)
        await until(lambda: sorted(seen[6:]) == [b"4", b"5"], "the last two again")
        with pytest.raises(ClientStateError, match="not held"):
            await push.seek(MessageQueue("T", "elsewhere", 0), 0)
    assert broker.offsets["G", "T", 0] == 6


async def test_calls_fail_unless_the_consumer_runs(broker: ScriptedBroker) -> None:
    push = consumer(broker)
    push.subscribe("T", "*", lambda message: None)
    for work in (push.drain, push.commit, push.lag):
        with pytest.raises(ClientStateError, match="not running"):
            await work()
    with pytest.raises(ClientStateError, match="not running"):
        await push.seek_to_time(0)
    with pytest.raises(ClientStateError, match="not running"):
        push.position(MessageQueue("T", "broker-a", 0))
    push.pause()
    push.resume()
    async with push:
        await push.commit()
    with pytest.raises(ClientStateError, match="not running"):
        await push.drain()


async def test_messages_after_a_drain_stay_at_the_broker(broker: ScriptedBroker) -> None:
    seen: list[bytes] = []
    push = consumer(broker)
    push.subscribe("T", "*", lambda message: seen.append(message.body))
    async with push:
        await until(lambda: len(broker.held) >= 2, "pulls that wait at the broker")
        assert await push.drain(60)
        broker.on_loop(lambda: [broker.store("T", queue_id, b"late", "") for queue_id in (0, 1)])
        # Asked after the answers to those pulls, on the same connection.
        assert [(await push.lag())[queue] for queue in push.assignment()] == [1, 1]
        await asyncio.sleep(0)
        assert seen == []
        push.resume()
        await until(lambda: seen == [b"late"] * 2, "both")
