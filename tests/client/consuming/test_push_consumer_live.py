"""Push consumers against a broker of our own: groups, filters, order, retries, dead letters, delays."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bolide.client import Message, ReceivedMessage, RetryLater, sql
from bolide.client.consuming.strategies import avg, machine_room, machine_room_nearby
from bolide.node.broker import BrokerNode
from bolide.testing.broker import Broker
from proof.kit.waiting import until
from tests.client.patient import Admin, Producer, PushConsumer
from tests.node.brokers import options


def consumer(broker: Broker, group: str, **more: Any) -> PushConsumer:
    return PushConsumer(group, broker.namesrv_addr, start_from="first", **more)


@pytest.mark.bolide_broker(enable_property_filter=True)
async def test_groups_get_what_they_want_exactly_once(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T", 4)
    shared: Counter[bytes] = Counter()
    tagged: Counter[bytes] = Counter()
    selected: Counter[bytes] = Counter()
    members = [consumer(bolide_broker, "Shared", instance_name=name) for name in ("a", "b")]
    for member in members:
        member.subscribe("T", "*", lambda batch: shared.update(item.body for item in batch), batch=16)
    tags = consumer(bolide_broker, "Tags")
    tags.subscribe("T", "A || B", lambda message: tagged.update([message.body]))
    select = consumer(bolide_broker, "Select")
    select.subscribe("T", sql("n >= 100 AND n < 150"), lambda message: selected.update([message.body]))
    async with members[0], members[1], tags, select, Producer("P", bolide_broker.namesrv_addr) as producer:
        await until(lambda: [len(member.assignment()) for member in members] == [2, 2], "an even share")
        await producer.send_many(
            Message("T", b"%d" % number, tags="ABCD"[number % 4], properties={"n": str(number)})
            for number in range(400)
        )
        await until(lambda: len(shared) == 400, "all of the shared group")
        await until(lambda: len(tagged) == 200, "two tags of four")
        await until(lambda: len(selected) == 50, "what the expression selects")
    for found in (shared, tagged, selected):
        assert set(found.values()) <= {1}


@pytest.mark.bolide_broker(broker_name="east@a")
async def test_consumers_read_in_their_machine_room(bolide_broker: Broker, tmp_path: Path) -> None:
    """Two brokers in two rooms: MACHINE_ROOM leaves the other room alone, MACHINE_ROOM_NEARBY shares by rooms."""
    west = BrokerNode(options(tmp_path, broker_name="west@b", namesrv_addr=bolide_broker.namesrv_addr))
    await west.start()
    async with Admin(bolide_broker.namesrv_addr) as admin:
        assert await admin.create_topic("T", queues=2) == ["east@a", "west@b"]
    strict = [
        consumer(bolide_broker, "Strict", strategy=machine_room(["east"]), instance_name=name) for name in ("a", "b")
    ]
    nearby = machine_room_nearby(avg, lambda broker: broker.split("@")[0], lambda client: client.split("@")[1])
    near = [consumer(bolide_broker, "Near", strategy=nearby, instance_name=room) for room in ("east", "west")]
    seen: Counter[bytes] = Counter()
    for member in strict:
        member.subscribe("T", "*", lambda message: seen.update([message.body]))
    for member in near:
        member.subscribe("T", "*", lambda message: None)

    def shares(members: list[PushConsumer]) -> list[list[tuple[str, int]]]:
        return [sorted((q.broker_name, q.queue_id) for q in member.assignment()) for member in members]

    producer = Producer("P", bolide_broker.namesrv_addr)  # its first message makes the west's log
    async with strict[0], strict[1], near[0], near[1], producer:
        await until(lambda: shares(strict) == [[("east@a", 0)], [("east@a", 1)]], "the queues of one room")
        both = [[("east@a", 0), ("east@a", 1)], [("west@b", 0), ("west@b", 1)]]
        await until(lambda: shares(near) == both, "each its own room")
        sent = [await producer.send(Message("T", b"%d" % number)) for number in range(8)]
        here = {b"%d" % n for n, result in enumerate(sent) if result.queue.broker_name == "east@a"}
        assert 0 < len(here) < 8
        await until(lambda: set(seen) >= here, "what was stored in the room")
    assert set(seen) == here
    await west.stop()


async def test_orderly_keeps_the_order_of_each_key(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T", 4)
    seen: dict[str, list[int]] = defaultdict(list)
    stumbled: set[bytes] = set()

    def listener(message: ReceivedMessage) -> None:
        if message.body.endswith(b"3") and message.body not in stumbled:
            stumbled.add(message.body)
            raise ValueError("scripted")
        seen[message.sharding_key].append(int(message.body))

    push = consumer(bolide_broker, "Orderly", orderly=True, orderly_pause=0.01)
    push.subscribe("T", "*", listener)
    async with push, Producer("P", bolide_broker.namesrv_addr) as producer:
        for number in range(100):
            await producer.send(Message("T", b"%d" % number, sharding_key=f"k{number % 9}"))
        await until(lambda: sum(map(len, seen.values())) == 100, "100 messages")
    assert all(numbers == sorted(numbers) for numbers in seen.values())


async def test_retry_then_dead_letter(bolide_broker: Broker) -> None:
    tries: list[int] = []
    dead: list[bytes] = []

    def listener(message: ReceivedMessage) -> None:
        assert message.topic == "T"
        tries.append(message.reconsume_times)
        raise RetryLater(1)

    async with Producer("P", bolide_broker.namesrv_addr) as producer:
        await producer.send(Message("T", b"bad"))
        push = consumer(bolide_broker, "Failing", max_reconsume_times=1)
        push.subscribe("T", "*", listener)
        async with push:
            await until(lambda: tries == [0, 1], "the retry")
            burier = consumer(bolide_broker, "Burier")
            burier.subscribe("%DLQ%Failing", "*", lambda message: dead.append(message.body))
            async with burier:
                await until(lambda: dead == [b"bad"], "the dead letter")


async def test_a_delayed_message_comes_later(bolide_broker: Broker) -> None:
    arrived: list[float] = []
    async with Producer("P", bolide_broker.namesrv_addr) as producer:
        await producer.send(Message("T", b"now"))
        push = consumer(bolide_broker, "G")
        push.subscribe("T", "*", lambda message: arrived.append(time.monotonic()))
        async with push:
            await until(lambda: len(arrived) == 1, "the first")
            begin = time.monotonic()
            await producer.send(Message("T", b"later", delay_level=1))
            await until(lambda: len(arrived) == 2, "the delayed one")
            assert arrived[1] - begin > 0.9


async def test_a_group_goes_on_where_it_was_and_a_new_one_starts_where_it_wants(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T", 2)

    async def collect(group: str, count: int, **more: Any) -> list[bytes]:
        seen: list[bytes] = []
        push = PushConsumer(group, bolide_broker.namesrv_addr, **{"start_from": "first", **more})
        push.subscribe("T", "*", lambda message: seen.append(message.body))
        async with push:
            await until(lambda: len(seen) >= count, f"{count} messages")
        return sorted(seen)

    async with Producer("P", bolide_broker.namesrv_addr) as producer:
        for number in range(4):
            await producer.send(Message("T", b"%d" % number))
        assert await collect("G", 4) == [b"0", b"1", b"2", b"3"]
        last = await producer.send(Message("T", b"4"))
        assert last.status == 0
        assert await collect("G", 1) == [b"4"]
        assert await collect("H", 5) == [b"0", b"1", b"2", b"3", b"4"]
        assert await collect("I", 5, start_from=0) == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_running_consumer_goes_back_in_time(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("tenant%T", 1)
    bolide_broker.create_topic("tenant%U", 1)
    seen: list[ReceivedMessage] = []
    push = consumer(bolide_broker, "G", namespace="tenant")
    for topic in "TU":
        push.subscribe(topic, "*", seen.append)
    async with push, Producer("P", bolide_broker.namesrv_addr, namespace="tenant") as producer:
        for number in range(4):
            await producer.send(Message("T", b"%d" % number))
            await until(lambda count=number + 1: len(seen) == count, "the message")
            while seen[-1].store_timestamp >= time.time_ns() // 1_000_000:
                await asyncio.sleep(0.001)  # the next one is stored in another millisecond
        await producer.send(Message("U", b"u"))
        await until(lambda: len(seen) == 5, "all of it")
        third = next(message for message in seen if message.body == b"2")
        await push.seek_to_time(
            third.store_timestamp, [queue for queue in push.assignment() if queue.topic == "tenant%T"]
        )
        await until(lambda: len(seen) == 7, "the last two again")
        await until(lambda: len(push.assignment()) == 2, "both queues again")
        await push.seek_to_time(datetime.fromtimestamp(0, UTC))
        await until(lambda: len(seen) == 12, "all of it again")
    assert {message.body for message in seen[5:7]} == {b"2", b"3"}  # a plain listener runs in threads


async def test_a_listener_of_lists_gets_long_lists_without_settings(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T", 1)
    lists: list[int] = []

    async def note(messages: list[ReceivedMessage]) -> None:
        lists.append(len(messages))

    async with Producer("P", bolide_broker.namesrv_addr) as producer:
        await producer.send_many([Message("T", b"x") for _ in range(600)])
    push = consumer(bolide_broker, "G")
    push.subscribe("T", "*", note)
    async with push:
        await until(lambda: sum(lists) == 600, "all messages")
    assert lists == [256, 256, 88]
