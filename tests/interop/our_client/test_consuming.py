"""Everything our consumers do, at Java's brokers 4.9.7 and 5.5.0."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from glob import glob
from pathlib import Path
from typing import Any

import pytest

from bolide.client import ConsumeResult, Message, ReceivedMessage, ResponseError, RetryLater, sql
from bolide.client.consuming.strategies import avg, avg_by_circle, consistent_hash
from bolide.client.messages.listener import DEAD_LETTER
from proof.interop.matrix import OF_OURS, marked
from proof.kit.waiting import PROCESS_PATIENCE, until
from tests.client.patient import Admin, Producer, PullConsumer, PushConsumer
from tests.interop.our_client.java_cluster import JavaCluster
from tests.interop.our_client.receiving import bodies, received, routed

pytestmark = pytest.mark.java


async def send(cluster: JavaCluster, topic: str, count: int, **more: Any) -> None:
    """Messages "0", "1", ... with tag T0 or T1 and the property n."""
    async with Producer("P", cluster.namesrv) as producer:
        outcomes = await producer.send_many(
            Message(topic, b"%d" % number, tags=f"T{number % 2}", properties={"n": str(number)}, **more)
            for number in range(count)
        )
    assert not [outcome for outcome in outcomes if isinstance(outcome, BaseException)]


def numbers(count: int) -> list[str]:
    """Bodies of `count` messages, sorted."""
    return sorted(str(number) for number in range(count))


def consumer(cluster: JavaCluster, topic: str, **options: Any) -> PushConsumer:
    """A member of the topic's group that starts at the first message."""
    return PushConsumer(f"{topic}-group", cluster.namesrv, **{"start_from": "first", **options})


@marked(OF_OURS, "tag filter")
async def test_tags(cluster: JavaCluster, topic: str) -> None:
    await send(cluster, topic, 20)
    got = await received(cluster.namesrv, topic, 10, "T1 || other")
    assert bodies(got) == sorted(str(number) for number in range(1, 20, 2))


@marked(OF_OURS, "SQL92 filter")
async def test_sql(cluster: JavaCluster, topic: str) -> None:
    await send(cluster, topic, 20)
    got = await received(cluster.namesrv, topic, 4, sql("n BETWEEN 5 AND 8 AND missing IS NULL"))
    assert bodies(got) == ["5", "6", "7", "8"]


@marked(OF_OURS, "client config check")
async def test_an_expression_that_is_refused_ends_the_start(cluster: JavaCluster, topic: str) -> None:
    await send(cluster, topic, 1)
    refused = consumer(cluster, topic)
    refused.subscribe(topic, sql("n >"), lambda message: None)
    with pytest.raises(ResponseError, match="CHECK_CLIENT_CONFIG"):
        await refused.start()


SHARES = {"AVG": avg, "AVG_BY_CIRCLE": avg_by_circle, "CONSISTENT_HASH": consistent_hash}


@pytest.mark.parametrize("strategy", SHARES)
@marked(OF_OURS, "concurrent push")
async def test_a_group_shares_its_queues(cluster: JavaCluster, topic: str, strategy: str) -> None:
    await send(cluster, topic, 1)
    seen: Counter[str] = Counter()
    members = [consumer(cluster, topic, strategy=strategy, instance_name=name) for name in ("a", "b")]
    for member in members:
        member.subscribe(topic, "*", lambda batch: seen.update(map(repr, batch)), batch=8)
    async with members[0]:
        await until(lambda: len(members[0].assignment()) == 4, "the whole topic", PROCESS_PATIENCE)
        queues = members[0].assignment()
        async with members[1]:
            ids = sorted(member.client_id for member in members)
            # Its share for each, which may be none by hash: messages come only once no queue moves any more.
            shares = [SHARES[strategy](f"{topic}-group", member.client_id, queues, ids) for member in members]
            assert sorted(shares[0] + shares[1]) == queues
            assert strategy == "CONSISTENT_HASH" or len(shares[1]) == 2
            await until(lambda: [m.assignment() for m in members] == shares, "a share for each", PROCESS_PATIENCE)
            await send(cluster, topic, 100)
            await until(lambda: len(seen) == 101, "all messages", PROCESS_PATIENCE)
        await until(lambda: len(members[0].assignment()) == 4, "the whole topic again", PROCESS_PATIENCE)
    assert sum(times > 1 for times in seen.values()) <= 1, seen  # what came first, and while queues moved


@marked(OF_OURS, "orderly push", "queue locks")
async def test_order_is_kept_when_a_member_leaves(cluster: JavaCluster, topic: str) -> None:
    await send(cluster, topic, 1, sharding_key="first")
    seen: dict[str, list[int]] = defaultdict(list)
    at: dict[int, str] = {}
    stumbled: set[bytes] = set()
    options = {"orderly": True, "orderly_pause": 0.05}
    members = {name: consumer(cluster, topic, instance_name=name, **options) for name in "ab"}
    for name, member in members.items():

        def take(message: ReceivedMessage, name: str = name) -> ConsumeResult:
            if message.body.endswith(b"3") and message.body not in stumbled:
                stumbled.add(message.body)
                return ConsumeResult.RETRY
            if message.sharding_key != "first":
                seen[message.sharding_key].append(int(message.body))
                at[int(message.body)] = name
            return ConsumeResult.SUCCESS

        member.subscribe(topic, "*", take)
    async with members["a"], Producer("P", cluster.namesrv) as producer:
        await members["b"].start()
        await until(
            lambda: [len(m.assignment()) for m in members.values()] == [2, 2], "an even share", PROCESS_PATIENCE
        )
        for number in range(60):
            await producer.send(Message(topic, b"%d" % number, sharding_key=f"k{number % 7}"))
            if number == 30:
                await until(lambda: "b" in at.values(), "a message at the second", PROCESS_PATIENCE)
                await members["b"].close()  # releases its locks: the first continues at once
        await until(lambda: len(at) == 60, "60 messages", PROCESS_PATIENCE)
    assert all(list(dict.fromkeys(found)) == sorted(set(found)) for found in seen.values()), seen
    assert {at[number] for number in (58, 59)} == {"a"}


@marked(OF_OURS, "retry to dead letters")
async def test_retry_then_dead_letter(cluster: JavaCluster, topic: str) -> None:
    await send(cluster, topic, 1)
    tries: list[int] = []

    def fail(message: ReceivedMessage) -> None:
        assert message.topic == topic
        tries.append(message.reconsume_times)
        raise RetryLater(1)

    failing = consumer(cluster, topic, max_reconsume_times=1)
    failing.subscribe(topic, "*", fail)
    async with failing:
        await until(lambda: 1 in tries, "the retry", PROCESS_PATIENCE)
        letters = await received(cluster.namesrv, f"%DLQ%{topic}-group", 1, group=f"{topic}-burial")
    # What a broker does not answer within five seconds is sent again: each arrives at least once.
    assert tries[0] == 0 and set(tries) == {0, 1}
    assert {(dead.body, dead.get_property("RETRY_TOPIC")) for dead in letters} == {(b"0", topic)}


@marked(OF_OURS, "ack, nack and delay of each message")
async def test_each_message_has_its_own_outcome(cluster: JavaCluster, topic: str) -> None:
    async with Producer("P", cluster.namesrv) as producer:
        await producer.send(Message(topic, b"good"))
        queue = (await producer.queues(topic))[0]
        await producer.send_batch([Message(topic, body) for body in (b"busy", b"bad", b"fine")], queue=queue)
    tries: Counter[str] = Counter()
    again: dict[bytes, float] = {}

    async def decide(message: ReceivedMessage) -> ConsumeResult:
        tries[f"{message.body.decode()} {message.reconsume_times}"] += 1
        if message.body == b"busy" and not message.reconsume_times:
            again[b"began"] = time.monotonic()
            raise RetryLater(1)
        if message.body == b"bad":
            raise RetryLater(DEAD_LETTER)
        again[message.body] = time.monotonic()
        return ConsumeResult.SUCCESS

    member = consumer(cluster, topic)
    member.subscribe(topic, "*", decide)
    async with member:
        await until(lambda: len(tries) == 5, "every outcome", PROCESS_PATIENCE)
        letters = await received(cluster.namesrv, f"%DLQ%{topic}-group", 1, group=f"{topic}-burial")
    assert sorted(tries) == ["bad 0", "busy 0", "busy 1", "fine 0", "good 0"]
    assert again[b"busy"] - again[b"began"] > 0.9
    assert {dead.body for dead in letters} == {b"bad"}


@marked(OF_OURS, "broadcast")
async def test_broadcasting_keeps_its_offsets_here(cluster: JavaCluster, topic: str, tmp_path: Path) -> None:
    await send(cluster, topic, 10)
    both: dict[str, list[str]] = defaultdict(list)
    members = []
    for name in ("a", "b"):
        member = consumer(cluster, topic, model="broadcasting", instance_name=name, offset_folder=tmp_path)
        member.subscribe(topic, "*", lambda message, name=name: both[name].append(message.body.decode()))
        members.append(member)
    async with members[0], members[1]:
        await until(lambda: all(len(both[name]) == 10 for name in "ab"), "all of it twice", PROCESS_PATIENCE)
    assert sorted(both["a"]) == sorted(both["b"]) == numbers(10)
    async with Admin(cluster.namesrv) as admin:
        assert await admin.topic_groups(topic) == []  # the broker has no offsets of the group
    assert len(glob(f"{tmp_path}/*/{topic}-group/offsets.json")) == 2
    async with Producer("P", cluster.namesrv) as producer:
        await producer.send(Message(topic, b"more"))
    got = await received(cluster.namesrv, topic, 1, model="broadcasting", instance_name="a", offset_folder=tmp_path)
    assert bodies(got) == ["more"]


@marked(OF_OURS, "broadcast")
async def test_java_goes_on_by_our_file_of_offsets_and_we_by_its(cluster: JavaCluster, topic: str) -> None:
    group = f"{topic}-group"

    def java(before: int, count: int) -> list[str]:
        """What Java's consumer gets beyond what it had got before."""
        cluster.java.call("consume", group=group, topic=topic, broadcast=1)
        got = cluster.java.call("await", group=group, count=before + count)
        cluster.java.call("stop", group=group)
        return sorted(message["body"] for message in got[before:])

    await send(cluster, topic, 10)
    assert await asyncio.to_thread(java, 0, 10) == numbers(10)
    folder = cluster.java_home / ".rocketmq_offsets"
    (file,) = folder.glob(f"*/{group}/offsets.json")
    await send(cluster, topic, 1)
    ours: dict[str, Any] = {"model": "broadcasting", "client_id": file.parent.parent.name, "offset_folder": folder}
    assert bodies(await received(cluster.namesrv, topic, 1, **ours)) == ["0"]
    await send(cluster, topic, 2)
    assert await asyncio.to_thread(java, 10, 2) == ["0", "1"]


@marked(OF_OURS, "resume at the offset")
async def test_a_group_goes_on_where_it_was(cluster: JavaCluster, topic: str) -> None:
    await send(cluster, topic, 8)
    assert bodies(await received(cluster.namesrv, topic, 8)) == numbers(8)
    async with Producer("P", cluster.namesrv) as producer:
        await producer.send(Message(topic, b"more"))
    assert bodies(await received(cluster.namesrv, topic, 1)) == ["more"]


@marked(OF_OURS, "consume-from rules")
async def test_new_group_starts_at_first_message_in_memory(cluster: JavaCluster, topic: str) -> None:
    await send(cluster, topic, 8)
    # To a group it does not know a Java broker names offset 0 while it still has the first message in memory:
    # "last" and a time are for topics that have lost messages, with Java's consumers and with ours.
    for start_from in ("last", "first", int(time.time() * 1000) + 60_000):
        got = await received(cluster.namesrv, topic, 8, start_from=start_from, group=f"{topic}-{start_from}")
        assert bodies(got) == numbers(8)


@marked(OF_OURS, "lite pull")
async def test_lite_pull(cluster: JavaCluster, topic: str) -> None:
    async def read(count: int) -> list[str]:
        got: list[ReceivedMessage] = []
        async with PullConsumer(f"{topic}-group", cluster.namesrv, start_from="first", auto_commit=False) as puller:
            puller.subscribe(topic, "T0 || T1")
            deadline = time.monotonic() + PROCESS_PATIENCE
            while len(got) < count:
                assert time.monotonic() < deadline, got
                got += await puller.poll(1.0)
            await puller.commit()
            assert sum((await puller.lag()).values()) == 0
        return bodies(got)

    await send(cluster, topic, 40)
    assert await read(40) == numbers(40)
    await send(cluster, topic, 2)
    assert await read(2) == ["0", "1"]


@marked(OF_OURS, "lite pull of assigned queues", "seek by offset and time")
async def test_assigned_queues_and_seeking(cluster: JavaCluster, topic: str) -> None:
    async with Producer("P", cluster.namesrv) as producer:
        await producer.send(Message(topic, b"other"))
        queue = max(await producer.queues(topic))
        for number in range(10):
            last = await producer.send(Message(topic, b"%d" % number), queue=queue)
    async with Admin(cluster.namesrv) as admin:
        await routed(admin, topic)
    async with PullConsumer(f"{topic}-group", cluster.namesrv, start_from="first") as puller:
        await puller.assign([queue])
        deadline = time.monotonic() + PROCESS_PATIENCE
        while await puller.end_offset(queue) <= last.queue_offset:  # told a moment after the answer to the send
            assert time.monotonic() < deadline
        assert await puller.end_offset(queue) == last.queue_offset + 1
        await puller.seek(queue, await puller.end_offset(queue) - 3)
        got = await puller.poll(PROCESS_PATIENCE)
        assert [message.body for message in got] == [b"7", b"8", b"9"]
        await puller.seek_to_begin([queue])
        first = (await puller.poll(PROCESS_PATIENCE, 1))[0]
        assert first.queue_offset == await puller.begin_offset(queue) == 0
        await puller.seek_to_time(got[1].store_timestamp, [queue])
        again = (await puller.poll(PROCESS_PATIENCE, 1))[0]
        assert again.store_timestamp >= got[1].store_timestamp
        assert again.queue_offset <= got[1].queue_offset
        await puller.seek_to_end([queue])
        assert puller.position(queue) == await puller.end_offset(queue)


@marked(OF_OURS, "suspend and resume", "consumer lag", "drain", "seek by offset and time")
async def test_a_push_consumer_is_steered(cluster: JavaCluster, topic: str) -> None:
    await send(cluster, topic, 1)
    seen: list[str] = []
    member = consumer(cluster, topic)
    member.subscribe(topic, "*", lambda message: seen.append(message.body.decode()))
    async with member:
        await until(lambda: seen == ["0"], "the first", PROCESS_PATIENCE)
        assert await member.drain(PROCESS_PATIENCE)
        await send(cluster, topic, 12)
        deadline = time.monotonic() + PROCESS_PATIENCE
        while sum((await member.lag()).values()) < 12:  # a broker tells the ends of queues a moment later
            assert time.monotonic() < deadline, await member.lag()
        assert sum((await member.lag()).values()) == 12
        assert seen == ["0"]
        member.resume()
        await until(lambda: len(seen) == 13, "the rest", PROCESS_PATIENCE)
        await member.seek_to_time(0)
        await until(lambda: len(seen) == 26, "all of it again", PROCESS_PATIENCE)
    assert Counter(seen) == Counter({str(number): 2 for number in range(1, 12)} | {"0": 4})
