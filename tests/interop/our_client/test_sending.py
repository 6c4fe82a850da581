"""Everything our producers do, at Java's brokers 4.9.7 and 5.5.0."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import msgspec
import pytest

from bolide.client import (
    Message,
    MessageQueue,
    ReceivedMessage,
    ResponseError,
    SendStatus,
    TransactionState,
    blocking,
    lmq,
)
from bolide.remoting.compression import COMPRESSED_FLAG, NAMES, TYPE_MASK, TYPE_SHIFT
from bolide.remoting.recall_handle import encode_recall_handle
from proof.interop.matrix import OF_OURS, marked
from proof.kit.waiting import PROCESS_PATIENCE, until
from tests.client.patient import Producer, PushConsumer, TransactionProducer
from tests.interop.our_client.java_cluster import JavaCluster
from tests.interop.our_client.receiving import bodies, received

pytestmark = pytest.mark.java


@marked(OF_OURS, "send sync")
async def test_send(cluster: JavaCluster, topic: str) -> None:
    message = Message(topic, "ä body".encode(), tags="A", keys=["k1", "k2"], properties={"größe": "5"}, flag=7)
    async with Producer("P", cluster.namesrv) as producer:
        result = await producer.send(message)
    assert (result.status, result.queue.broker_name) == (SendStatus.SEND_OK, "broker-a")
    (got,) = await received(cluster.namesrv, topic, 1)
    assert (got.body, got.tags, got.keys, got.flag) == (message.body, "A", ["k1", "k2"], 7)
    assert got.properties["größe"] == "5"
    assert (got.message_id, got.offset_message_id) == (result.message_id, result.offset_message_id)
    assert (got.queue, got.queue_offset) == (result.queue, result.queue_offset)


@marked(OF_OURS, "send async")
async def test_submit(cluster: JavaCluster, topic: str) -> None:
    async with Producer("P", cluster.namesrv) as producer:
        futures = [producer.submit(Message(topic, b"%d" % number)) for number in range(50)]
        many = await producer.send_many(Message(topic, b"%d" % number) for number in range(50, 100))
        results = [await future for future in futures] + many
    assert {result.status for result in results if not isinstance(result, BaseException)} == {SendStatus.SEND_OK}
    assert len({result.queue.queue_id for result in results if not isinstance(result, BaseException)}) == 4
    assert bodies(await received(cluster.namesrv, topic, 100)) == sorted(str(number) for number in range(100))


@marked(OF_OURS, "send batch")
async def test_concurrent_sends_are_stored_like_single_ones(cluster: JavaCluster, topic: str) -> None:
    async with Producer("P", cluster.namesrv) as producer:
        single = await producer.send(Message(topic, b"single", tags="A", sharding_key="k"))
        messages = [Message(topic, b"%d" % number, tags="A", keys="one", sharding_key="k") for number in range(300)]
        results = await asyncio.gather(*(producer.send(message) for message in messages))
    got = await received(cluster.namesrv, topic, 301)
    assert [message.body for message in got[1:]] == [message.body for message in messages]
    assert [message.message_id for message in got] == [each.message_id for each in (single, *results)]
    assert [message.offset_message_id for message in got] == [each.offset_message_id for each in (single, *results)]
    assert [message.queue_offset for message in got] == [each.queue_offset for each in (single, *results)]
    assert len({message.born_timestamp for message in got}) < 200  # they did share requests
    own = {"UNIQ_KEY", "KEYS", "MIN_OFFSET", "MAX_OFFSET"}
    if cluster.is_old:  # it stores these with messages of a batch only
        own |= {"WAIT", "MSG_REGION", "TRACE_ON"}
    properties = [{name: each.properties[name] for name in each.properties.keys() - own} for each in got]
    assert [each for each in properties if each != properties[0]] == []


@marked(OF_OURS, "send oneway")
async def test_oneway(cluster: JavaCluster, topic: str) -> None:
    async with Producer("P", cluster.namesrv) as producer:
        await producer.send(Message(topic, b"0"))  # makes the topic: a oneway send learns nothing from a refusal
        for number in range(1, 10):
            await producer.send_oneway(Message(topic, b"%d" % number))
        assert bodies(await received(cluster.namesrv, topic, 10)) == [str(number) for number in range(10)]


@marked(OF_OURS, "send batch")
async def test_batch(cluster: JavaCluster, topic: str) -> None:
    messages = [Message(topic, b"%d" % number, tags="T", keys=f"key-{number}") for number in range(20)]
    async with Producer("P", cluster.namesrv) as producer:
        result = await producer.send_batch(messages)
    got = await received(cluster.namesrv, topic, 20)
    assert [message.queue_offset for message in got] == list(range(20))
    assert {message.queue for message in got} == {result.queue}
    assert [message.message_id for message in got] == result.message_id.split(",")
    assert [(message.body, message.keys) for message in got] == [
        (b"%d" % number, [f"key-{number}"]) for number in range(20)
    ]


@marked(OF_OURS, "send by selector")
async def test_selectors(cluster: JavaCluster, topic: str) -> None:
    async with Producer("P", cluster.namesrv) as producer:
        await producer.send(Message(topic, b"0"))
        last = max(await producer.queues(topic))
        chosen = await producer.send(Message(topic, b"1"), queue=last)
        picked = await producer.send(Message(topic, b"2"), queue=lambda queues, message: min(queues))
        sharded = {(await producer.send(Message(topic, b"3", sharding_key="order-7"))).queue.queue_id for _ in range(4)}
        with pytest.raises(ResponseError):
            await producer.send(Message(topic, b"4"), queue=MessageQueue(topic, "broker-a", 99))
    assert (chosen.queue, picked.queue.queue_id) == (last, 0)
    assert len(sharded) == 1
    got = await received(cluster.namesrv, topic, 7)
    assert {message.queue_id for message in got if message.sharding_key} == sharded


@pytest.mark.parametrize("kind", ["ZLIB", "LZ4", "ZSTD"])
@marked(OF_OURS, "compression {kind}")
async def test_compression(cluster: JavaCluster, topic: str, kind: str) -> None:
    body = b"a body that can be made shorter " * 400
    async with Producer("P", cluster.namesrv, compression=kind) as producer:
        await producer.send(Message(topic, body))
    (got,) = await received(cluster.namesrv, topic, 1)
    assert got.body == body
    assert len(got.record.body) < 1000
    assert got.sys_flag & COMPRESSED_FLAG
    assert (got.sys_flag & TYPE_MASK) >> TYPE_SHIFT == NAMES[kind]


@marked(OF_OURS, "delay level")
async def test_delay_level(cluster: JavaCluster, topic: str) -> None:
    arrived: dict[bytes, float] = {}
    consumer = PushConsumer(f"{topic}-group", cluster.namesrv, start_from="first")
    consumer.subscribe(topic, "*", lambda message: arrived.setdefault(message.body, time.monotonic()))
    async with Producer("P", cluster.namesrv) as producer:
        await producer.send(Message(topic, b"now"))
        async with consumer:
            await until(lambda: arrived, "the first", PROCESS_PATIENCE)
            begin = time.monotonic()
            await producer.send(Message(topic, b"in 1 s", delay_level=1))
            await until(lambda: len(arrived) == 2, "the delayed one", PROCESS_PATIENCE)
    assert arrived[b"in 1 s"] - begin > 0.9


@marked(OF_OURS, "arbitrary delay", "recall")
async def test_delays_of_any_length(cluster: JavaCluster, topic: str) -> None:
    async with Producer("P", cluster.namesrv) as producer:
        begin = time.time()
        for delay in (1.5, 3):
            await producer.send(Message(topic, b"%d ms" % (delay * 1000), delay=delay))
        await producer.send(Message(topic, b"at", deliver_at=(begin + 2) * 1000))
        dropped = await producer.send(Message(topic, b"dropped", delay=4))
        if cluster.is_old:  # it knows nothing of it: what it stores it delivers
            unknown = encode_recall_handle(topic, "broker-a", 2_000_000_000_000, dropped.message_id)
            with pytest.raises(ResponseError, match="not supported"):
                await producer.recall(topic, unknown)
            assert bodies(await received(cluster.namesrv, topic, 4)) == ["1500 ms", "3000 ms", "at", "dropped"]
            return
        assert await producer.recall(topic, dropped.recall_handle) == dropped.message_id
        kept = await producer.send(Message(topic, b"kept", delay=5))
    got = await received(cluster.namesrv, topic, 4)
    assert bodies(got) == ["1500 ms", "3000 ms", "at", "kept"]
    due = {b"1500 ms": 1.5, b"3000 ms": 3, b"at": 2, b"kept": 5}
    assert all(message.store_timestamp / 1000 > begin + due[message.body] - 1 for message in got)
    assert kept.recall_handle


@marked(OF_OURS, "namespaces")
async def test_namespaces(cluster: JavaCluster, topic: str) -> None:
    for tenant in ("one", "two"):
        async with Producer("P", cluster.namesrv, namespace=tenant) as producer:
            await producer.send(Message(topic, tenant.encode()))
    for tenant in ("one", "two"):
        (got,) = await received(cluster.namesrv, topic, 1, namespace=tenant)
        assert (got.topic, got.body, got.record.topic) == (topic, tenant.encode(), f"{tenant}%{topic}")
    assert bodies(await received(cluster.namesrv, f"one%{topic}", 1, group=f"{topic}-outside")) == ["one"]


@marked(OF_OURS, "light queues")
async def test_light_queues(cluster: JavaCluster, topic: str) -> None:
    async with Producer("P", cluster.namesrv) as producer:
        for number in range(6):
            rooms = ["even"] if number % 2 == 0 else ["odd", "third"] if number % 3 == 0 else ["odd"]
            await producer.send(
                Message(topic, b"%d" % number, light_queues=[f"{room}-{cluster.line}" for room in rooms])
            )
    for room, there in (("even", ["0", "2", "4"]), ("odd", ["1", "3", "5"]), ("third", ["3"])):
        name = lmq(f"{room}-{cluster.line}")
        seen: list[ReceivedMessage] = []
        consumer = PushConsumer(f"{topic}-{room}", cluster.namesrv, start_from="first")
        consumer.subscribe(name, "*", seen.append, parent=topic)
        async with consumer:
            deadline = time.monotonic() + PROCESS_PATIENCE
            while len(seen) < len(there):
                assert time.monotonic() < deadline, (room, seen)
                await asyncio.sleep(0.01)
        seen.sort(key=lambda message: message.queue_offset)  # threads note what they got
        assert [message.queue_offset for message in seen] == list(range(len(there)))
        assert [message.body.decode() for message in seen] == there


class Payments:
    """Ends each transaction as its key says, at once or when asked."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    async def execute(self, message: Message, argument: Any) -> TransactionState:
        return TransactionState[argument]

    def check(self, message: ReceivedMessage) -> TransactionState:
        key = message.keys[0]
        self.asked[key] += 1
        return TransactionState.ROLLBACK if key.endswith("no") else TransactionState.COMMIT


@marked(OF_OURS, "transaction with check-back")
async def test_transactions(cluster: JavaCluster, topic: str) -> None:
    listener = Payments()
    open_ones = {"yes": "COMMIT", "no": "ROLLBACK", "late-yes": "UNKNOWN", "late-no": "UNKNOWN"}
    async with TransactionProducer(f"{topic}-group", cluster.namesrv, listener) as producer:
        for key, state in open_ones.items():
            result = await producer.send_in_transaction(Message(topic, key.encode(), tags="A", keys=key), state)
            assert (result.sent.status, result.state.name) == (SendStatus.SEND_OK, state)
        got: list[ReceivedMessage] = []
        while len(set(bodies(got))) < 2:
            got += await received(cluster.namesrv, topic, 1, "A")
        await until(lambda: {"late-yes", "late-no"} <= listener.asked.keys(), "both are asked about", PROCESS_PATIENCE)
    # 5.5.0 asks once more about those decided last, and takes the answer for another commit.
    assert set(bodies(got)) == {"late-yes", "yes"}
    assert all(message.transaction_id == message.message_id for message in got)


@marked(OF_OURS, "request-reply")
async def test_request(cluster: JavaCluster, topic: str) -> None:
    consumer = PushConsumer(f"{topic}-group", cluster.namesrv, start_from="first", instance_name="server")

    async def double(message: ReceivedMessage) -> None:
        await consumer.reply_to(message, b"%d" % (2 * int(message.body)))

    consumer.subscribe(topic, "*", double)
    async with consumer, Producer(f"{topic}-askers", cluster.namesrv) as producer:
        answers = await asyncio.gather(
            *(producer.request(Message(topic, b"%d" % number), PROCESS_PATIENCE) for number in range(5))
        )
    assert [answer.body for answer in answers] == [b"0", b"2", b"4", b"6", b"8"]


class Order(msgspec.Struct):
    what: str
    count: int = 1


@marked(OF_OURS, "typed bodies")
async def test_values(cluster: JavaCluster, topic: str) -> None:
    async with Producer("P", cluster.namesrv, codec=Order) as producer:
        await producer.send(Message(topic, value=Order("coffee", 2)))
    seen: list[Order] = []
    consumer = PushConsumer(f"{topic}-group", cluster.namesrv, start_from="first", codec=Order)
    consumer.subscribe(topic, "*", lambda message: seen.append(message.value))
    async with consumer:
        await until(lambda: seen, "the order", PROCESS_PATIENCE)
    assert seen == [Order("coffee", 2)]


@marked(OF_OURS, "the binary header")
async def test_every_request_with_the_binary_header(cluster: JavaCluster, topic: str) -> None:
    # A group of its own and a client of its own: other tests' connections speak JSON.
    async with Producer("P", cluster.namesrv, binary_header=True, instance_name="b") as producer:
        result = await producer.send(Message(topic, "ä".encode(), keys="k", properties={"größe": "5"}))
        await producer.send_batch([Message(topic, b"1"), Message(topic, b"2")], queue=result.queue)
        await producer.send_oneway(Message(topic, b"3"))
    got = await received(cluster.namesrv, topic, 4, binary_header=True, instance_name="b")
    assert bodies(got) == ["1", "2", "3", "ä"]
    assert [message.properties["größe"] for message in got if message.keys] == ["5"]


@marked(OF_OURS, "blocking client")
def test_without_an_event_loop(cluster: JavaCluster, topic: str) -> None:
    with blocking.Producer("P", cluster.namesrv) as producer:
        producer.send(Message(topic, b"1"))
        producer.send_batch([Message(topic, b"2"), Message(topic, b"3")])
    with blocking.PullConsumer(f"{topic}-group", cluster.namesrv, start_from="first") as consumer:
        consumer.subscribe(topic)
        seen: list[bytes] = []
        for message in consumer:
            seen.append(message.body)
            if len(seen) == 3:
                break
    assert sorted(seen) == [b"1", b"2", b"3"]
