"""Pull consumers: asking, seeking, committing."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from bolide.client import ArgumentError, FlowControl, Message, MessageQueue, PullStatus, TopicNotFound
from bolide.client.messages.errors import ClientStateError, ResponseError
from bolide.remoting import codes
from bolide.testing.broker import Broker
from proof.kit.waiting import until
from tests.client.consumer_parts import Q0, Q1, fill, pull_consumer
from tests.client.patient import Producer, PullConsumer
from tests.client.scripted_broker import ScriptedBroker, refusing


async def test_async_for_gets_everything_and_each_message_counts_when_the_next_is_asked_for(
    broker: ScriptedBroker,
) -> None:
    seen = []
    async with pull_consumer(broker) as consumer:
        consumer.subscribe("T")
        fill(broker, 40)
        async for message in consumer:
            seen.append(message.body)
            if len(seen) == 40:
                break
    assert sorted(seen, key=int) == [b"%d" % number for number in range(40)]
    assert broker.offsets["G", "T", 0] == broker.offsets["G", "T", 1] == 20
    assert len(asyncio.all_tasks()) == 1


def asked(broker: ScriptedBroker) -> list[int]:
    """The offsets of all pulls of one queue."""
    pulls = [pull.ext() for pull in broker.requests(codes.LITE_PULL_MESSAGE)]
    return [int(pull["queueOffset"]) for pull in pulls if (pull["topic"], pull["queueId"]) == ("T", "0")]


async def test_prefetched_messages_are_refetched_from_a_master_with_a_shorter_log(
    broker: ScriptedBroker,
) -> None:
    async with pull_consumer(broker) as consumer:
        consumer.subscribe("T")
        broker.on_loop(lambda: [broker.store("T", 0, b"%d" % number, "") for number in range(4)])
        (first,) = await consumer.poll(60, max_messages=1)
        assert first.body == b"0"
        await until(lambda: asked(broker)[-1] == 4, "a pull at the end")
        broker.on_loop(lambda: broker.stored["T", 0].pop())
        broker.cut()
        await until(lambda: 0 in asked(broker)[asked(broker).index(4) :], "a pull from the front")
        seen: set[bytes] = set()
        while seen != {b"0", b"1", b"2"}:
            seen |= {message.body for message in await consumer.poll(60)} - {b"3"}


async def test_leaving_by_an_error_does_not_commit_what_was_just_returned(broker: ScriptedBroker) -> None:
    fill(broker, 2)
    with pytest.raises(ZeroDivisionError):
        async with pull_consumer(broker) as consumer:
            consumer.subscribe("T")
            assert await consumer.poll()
            raise ZeroDivisionError
    assert not any(broker.offsets.get(("G", "T", queue_id), 0) for queue_id in (0, 1))


async def test_without_auto_commit_only_commit_moves_offsets(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    async with pull_consumer(broker, auto_commit=False) as consumer:
        await consumer.assign([Q0])
        first = await consumer.poll(max_messages=3)
        assert [message.queue_offset for message in first] == [0, 1, 2]
        assert (await consumer.committed(Q0), consumer.position(Q0)) == (-1, 3)
        await consumer.commit()
        assert await consumer.committed(Q0) == 3
        await consumer.poll()
    assert broker.offsets["G", "T", 0] == 3


async def test_seeking(broker: ScriptedBroker) -> None:
    fill(broker, 20)
    async with pull_consumer(broker) as consumer:
        await consumer.assign([Q0])
        assert len(await consumer.poll()) == 10
        await consumer.seek(Q0, 4)
        assert [message.queue_offset for message in await consumer.poll()] == [4, 5, 6, 7, 8, 9]
        await consumer.seek_to_begin([Q0])
        assert (await consumer.poll())[0].queue_offset == 0
        await consumer.seek_to_end([Q0])
        assert await consumer.poll(0.05) == []
        assert (await consumer.begin_offset(Q0), await consumer.end_offset(Q0)) == (0, 10)
        with pytest.raises(ClientStateError, match="not held"):
            await consumer.seek(Q1, 0)


async def test_assign_and_subscribe_exclude_each_other(broker: ScriptedBroker) -> None:
    async with pull_consumer(broker) as consumer:
        assert await consumer.queues("T") == [Q0, Q1]
        with pytest.raises(ArgumentError, match="topic"):
            await consumer.queues("a b")
        await consumer.assign([Q0, Q1])
        assert consumer.assignment() == [Q0, Q1]
        await consumer.assign([Q1])
        assert consumer.assignment() == [Q1]
        with pytest.raises(ClientStateError, match="not both"):
            consumer.subscribe("T")
    with pytest.raises(ClientStateError, match="not running"):
        await consumer.poll()


async def test_consumer_can_subscribe_after_an_assign_that_failed(broker: ScriptedBroker) -> None:
    light, missing = MessageQueue("%LMQ%a", "broker-a", 0), MessageQueue("missing", "broker-a", 0)
    consumer = pull_consumer(broker)
    with pytest.raises(ClientStateError, match="not running"):
        await consumer.assign([Q0])
    async with consumer:
        for queue, error in ((light, ArgumentError), (missing, TopicNotFound)):
            with pytest.raises(error):
                await consumer.assign([queue])
        consumer.subscribe("T")
        await until(lambda: consumer.assignment() == [Q0, Q1], "both queues")


async def test_paused_queues_return_nothing(broker: ScriptedBroker) -> None:
    fill(broker, 4)
    async with pull_consumer(broker) as consumer:
        await consumer.assign([Q0])
        consumer.pause([Q0])
        assert await consumer.poll(0.1) == []
        consumer.resume([Q0])
        assert len(await consumer.poll()) == 2


async def test_a_single_queue_where_several_are_wanted_is_refused(broker: ScriptedBroker) -> None:
    queue: Any = Q0
    async with pull_consumer(broker) as consumer:
        for given in (consumer.assign, consumer.seek_to_begin, consumer.seek_to_end):
            with pytest.raises(ArgumentError, match="give a list of MessageQueue"):
                await given(queue)
        with pytest.raises(ArgumentError, match="give a list"):
            consumer.pause(queue)
        with pytest.raises(ArgumentError, match="give a list"):
            consumer.resume(queue)
        with pytest.raises(ArgumentError, match="MessageQueue"):
            await consumer.pull(("T", "broker-a", 0), 0)  # type: ignore[arg-type]  # the mistake under test


async def test_a_paused_consumer_returns_nothing_until_all_of_it_resumes(broker: ScriptedBroker) -> None:
    fill(broker, 4)
    async with pull_consumer(broker) as consumer:
        await consumer.assign([Q0])
        consumer.pause()
        consumer.resume([Q0])
        assert await consumer.poll(0.1) == []
        consumer.resume()
        assert len(await consumer.poll()) == 2


async def test_pull_moves_no_offset(broker: ScriptedBroker) -> None:
    fill(broker, 8)
    async with pull_consumer(broker, codec="json") as consumer:
        result = await consumer.pull(Q1, 1, 2)
        assert (result.status, [message.value for message in result.messages]) == (PullStatus.FOUND, [3, 5])
        assert (result.next_offset, result.begin_offset, result.end_offset) == (3, 0, 4)
        nothing = await consumer.pull(Q1, 4)
        assert (nothing.status, nothing.messages, nothing.next_offset) == (PullStatus.NO_NEW_MSG, [], 4)
        waits = asyncio.create_task(consumer.pull(Q1, 4, wait=30))
        await until(lambda: len(broker.requests(codes.PULL_MESSAGE)) == 3, "the long poll")
        broker.on_loop(lambda: broker.store("T", 1, b"9", ""))
        assert [message.value for message in (await waits).messages] == [9]
        assert consumer.assignment() == []
        with pytest.raises(ArgumentError, match="offset is -1"):
            await consumer.pull(Q1, -1)
        with pytest.raises(TopicNotFound):
            await consumer.pull(MessageQueue("Nowhere", "broker-a", 0), 0)
    assert ("G", "T", 1) not in broker.offsets


async def test_lite_pulls_carry_their_subscription_and_never_commit(broker: ScriptedBroker) -> None:
    fill(broker, 4)
    async with pull_consumer(broker) as consumer:
        consumer.subscribe("T", "A || B")
        await until(lambda: broker.requests(codes.LITE_PULL_MESSAGE), "a pull")
    ext = broker.requests(codes.LITE_PULL_MESSAGE)[0].ext()
    assert (int(ext["sysFlag"]), ext["subscription"]) == (0x16, "A || B")


async def test_lag_is_what_is_not_consumed(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    async with pull_consumer(broker, auto_commit=False, flow=FlowControl(max_cached=2, pull_batch=2)) as consumer:
        consumer.subscribe("T")
        await until(lambda: len(consumer.assignment()) == 2, "both queues")  # they come one after the other
        assert await consumer.lag() == {Q0: 5, Q1: 5}
        seen = 0
        while seen < 4:
            seen += len(await consumer.poll(max_messages=1))
        assert sum((await consumer.lag()).values()) == 10  # returned, not consumed
        await consumer.commit()
        assert sum((await consumer.lag()).values()) == 6
        await consumer.seek_to_end([Q0])
        assert (await consumer.lag())[Q0] == 0
        await consumer.seek(Q1, 1)
        assert (await consumer.lag())[Q1] == 4
    with pytest.raises(ClientStateError):
        await consumer.lag()


async def test_seek_to_a_time(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T", 1)
    namesrv = bolide_broker.namesrv_addr
    async with Producer("P", namesrv) as producer, PullConsumer("G", namesrv, start_from="first") as consumer:
        await producer.send(Message("T", b"before"))
        first = int(time.time() * 1000)
        await until(lambda: time.time() * 1000 >= first + 3, "another millisecond")
        moment = datetime.now(UTC)
        await until(lambda: datetime.now(UTC).timestamp() * 1000 >= int(moment.timestamp() * 1000) + 2, "the next")
        await producer.send(Message("T", b"after"))
        consumer.subscribe("T")
        await until(consumer.assignment, "the queue")
        (queue,) = consumer.assignment()
        for when in (moment, int(moment.timestamp() * 1000)):
            await consumer.seek_to_time(when, [queue])
            assert [message.body for message in await consumer.poll()] == [b"after"]
        await consumer.seek_to_time(first - 60_000, [queue])
        assert (await consumer.poll())[0].body == b"before"


async def test_a_consumer_that_never_commits_gets_more_than_its_cache_holds(broker: ScriptedBroker) -> None:
    async with pull_consumer(broker, auto_commit=False, flow=FlowControl(max_cached=2, pull_batch=1)) as consumer:
        await consumer.assign([Q0])
        fill(broker, 40)
        seen: list[int] = []
        while len(seen) < 20:
            found = await consumer.poll(60)
            assert found, "a poll returns nothing while messages are left"
            seen += [message.queue_offset for message in found]
        assert seen == list(range(20))
        assert await consumer.committed(Q0) == -1
        await consumer.commit()
        assert await consumer.committed(Q0) == 20


@pytest.mark.parametrize(
    "code", [codes.NO_PERMISSION, codes.SUBSCRIPTION_PARSE_FAILED, codes.SUBSCRIPTION_GROUP_NOT_EXIST]
)
async def test_poll_raises_while_brokers_refuse_and_goes_on_afterwards(broker: ScriptedBroker, code: int) -> None:
    fill(broker, 4)
    served = broker.script.get(codes.LITE_PULL_MESSAGE)
    broker.script[codes.LITE_PULL_MESSAGE] = refusing(code)
    async with pull_consumer(broker) as consumer:
        consumer.subscribe("T")
        for _ in range(2):
            with pytest.raises(ResponseError, match="scripted refusal") as caught:
                await consumer.poll(60)
            assert caught.value.code == code
        if served is None:
            del broker.script[codes.LITE_PULL_MESSAGE]
        else:
            broker.script[codes.LITE_PULL_MESSAGE] = served
        seen: list[bytes] = []
        while len(seen) < 4:
            try:
                seen += [message.body for message in await consumer.poll(60)]
            except ResponseError:
                await asyncio.sleep(0)


async def test_start_raises_for_a_group_that_is_not_permitted(broker: ScriptedBroker) -> None:
    broker.script[codes.GET_CONSUMER_LIST_BY_GROUP] = refusing(codes.NO_PERMISSION)
    consumer = pull_consumer(broker)
    consumer.subscribe("T")
    with pytest.raises(ResponseError, match="scripted refusal"):
        await consumer.start()
    assert len(asyncio.all_tasks()) == 1


async def test_messages_given_back_twice_are_returned_once(broker: ScriptedBroker) -> None:
    async with pull_consumer(broker, auto_commit=False) as consumer:
        await consumer.assign([Q0])
        fill(broker, 6)
        assert [message.queue_offset for message in await consumer.poll(60, 1)] == [0]
        for _ in range(2):
            consumer._give_back(await consumer.poll(60, 1))
        assert [(await consumer.poll(60, 1))[0].queue_offset for _ in range(2)] == [1, 2]
        assert await consumer.poll(0) == []
        await consumer.commit()
        assert await consumer.committed(Q0) == 3


async def test_refusal_of_a_broker_that_moved_is_dropped(broker: ScriptedBroker) -> None:
    async with pull_consumer(broker) as consumer:
        await consumer.assign([Q0])
        heartbeats = consumer._member.instance.heartbeats
        heartbeats.refusals["127.0.0.1:1"] = ResponseError("refused")
        await heartbeats.send()
        assert heartbeats.refusals == {}


async def test_a_pull_consumer_keeps_the_limits_of_its_flow(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    flow = FlowControl(pull_batch=1, max_span=1, max_cached_for_topic=8, max_cached_bytes_for_topic=4000)
    async with pull_consumer(broker, auto_commit=False, flow=flow) as consumer:
        await consumer.assign([Q0, Q1])
        held = consumer._member.owned.values()
        await until(lambda: all(not each.has_room for each in held), "a limit of each queue")
        assert {(each.max_count, each.max_bytes, each.max_span) for each in held} == {(4, 2000, 1)}
        assert {each.limit_reached() for each in held} == {"max_span"}
