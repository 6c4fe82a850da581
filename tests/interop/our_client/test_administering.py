"""Offsets, searches, traces and what brokers ask of our clients, at Java's brokers 4.9.7 and 5.5.0."""

from __future__ import annotations

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bolide.client import Message, ReceivedMessage, TransactionState
from bolide.client.instance.name_servers import DOMAIN, ENVIRONMENT
from bolide.client.tracing.trace import TraceContext, decode_trace
from bolide.layout.names import TRACE_TOPIC
from bolide.world.clocks import now_ms
from proof.interop.matrix import OF_OURS, marked
from proof.kit.waiting import PROCESS_PATIENCE, until
from tests.client.patient import Admin, Producer, PullConsumer, PushConsumer, TransactionProducer
from tests.interop.our_client.java_cluster import JavaCluster
from tests.interop.our_client.receiving import bodies, received, routed

pytestmark = pytest.mark.java


@marked(OF_OURS, "query by key and id")
async def test_queries(cluster: JavaCluster, topic: str) -> None:
    async with (
        Producer("P", cluster.namesrv) as producer,
        Admin(cluster.namesrv) as admin,
    ):
        sent = [await producer.send(Message(topic, b"%d" % n, keys=["all", f"key-{n}"])) for n in range(5)]
        await routed(admin, topic)
        found: list[ReceivedMessage] = []

        async def indexed() -> bool:
            found[:] = await admin.messages_by_key(topic, "all")
            return len(found) == 5

        deadline = asyncio.get_running_loop().time() + PROCESS_PATIENCE
        while not await indexed():  # the index is written after the answer to the send
            assert asyncio.get_running_loop().time() < deadline, found
        assert bodies(found) == ["0", "1", "2", "3", "4"]
        assert bodies(await admin.messages_by_key(topic, "key-3")) == ["3"]
        for by_id in (
            await admin.message(sent[2].message_id, topic),
            await admin.message_by_unique_id(topic, sent[2].message_id),
            await admin.message_by_offset_id(sent[2].offset_message_id),
            await admin.message_at(sent[2].queue, sent[2].queue_offset),
        ):
            assert by_id is not None
            assert (by_id.body, by_id.message_id) == (b"2", sent[2].message_id)


@marked(OF_OURS, "offsets: query, reset, clone")
async def test_offsets_of_a_group(cluster: JavaCluster, topic: str) -> None:
    group = f"{topic}-group"
    async with (
        Producer("P", cluster.namesrv) as producer,
        Admin(cluster.namesrv) as admin,
    ):
        for number in range(8):
            await producer.send(Message(topic, b"%d" % number))
        await received(cluster.namesrv, topic, 8)
        queues = (await admin.topic_route(topic)).read_queues()
        assert [await admin.group_offset(group, queue) for queue in queues] == [2, 2, 2, 2]
        assert [await admin.end_offset(queue) for queue in queues] == [2, 2, 2, 2]
        progress = await admin.consumer_progress(group)
        assert progress.lag == 0
        await admin.create_group(f"{group}-2")
        await admin.clone_offsets(group, f"{group}-2", topic)
        assert [await admin.group_offset(f"{group}-2", queue) for queue in queues] == [2, 2, 2, 2]
        await admin.set_group_offset(f"{group}-2", queues[0], 1)
        waiting = await admin.message_at(queues[0], 1)
        assert waiting is not None
        least = now_ms() - waiting.store_timestamp
        ages = await admin.lag_times(f"{group}-2", topic)
        assert list(ages) == [queues[0]]
        assert least <= ages[queues[0]] <= now_ms() - waiting.store_timestamp
        assert len(await received(cluster.namesrv, topic, 1, group=f"{group}-2")) == 1
        await admin.reset_offset(group, topic, 0)
        assert bodies(await received(cluster.namesrv, topic, 8)) == sorted(map(str, range(8)))


@marked(OF_OURS, "offsets: reset of a running consumer")
async def test_a_running_consumer_is_reset(cluster: JavaCluster, topic: str) -> None:
    seen: list[bytes] = []
    consumer = PushConsumer(f"{topic}-group", cluster.namesrv, start_from="first", suspend=1.0)
    consumer.subscribe(topic, "*", lambda message: seen.append(message.body))
    async with (
        Producer("P", cluster.namesrv) as producer,
        Admin(cluster.namesrv) as admin,
    ):
        for number in range(6):
            await producer.send(Message(topic, b"%d" % number))
        async with consumer:
            await until(lambda: len(seen) == 6, "all of it", PROCESS_PATIENCE)
            await consumer.commit()
            await admin.reset_offset(f"{topic}-group", topic, 0)
            await until(lambda: len(seen) == 12, "all of it again", PROCESS_PATIENCE)


@marked(OF_OURS, "running info", "consume message directly", "client list", "stacks of our consumer")
async def test_consumer_responds_to_requests_of_a_broker(cluster: JavaCluster, topic: str) -> None:
    group = f"{topic}-group"
    seen: list[bytes] = []
    consumer = PushConsumer(group, cluster.namesrv, start_from="first", concurrency=7)
    consumer.subscribe(topic, "A", lambda message: seen.append(message.body))
    async with (
        Producer("P", cluster.namesrv) as producer,
        Admin(cluster.namesrv) as admin,
        consumer,
    ):
        sent = await producer.send(Message(topic, b"x", tags="A"))
        await until(lambda: seen, "the message", PROCESS_PATIENCE)
        connections = await admin.consumer_connections(group)
        assert connections is not None
        assert [one.client_id for one in connections.connection_set] == [consumer.client_id]
        info = await admin.consumer_running_info(group, consumer.client_id)
        assert info.properties["PROP_THREADPOOL_CORE_SIZE"] == "7"
        printed = await asyncio.to_thread(cluster.mqadmin.run, "consumerStatus", "-g", group, "-i", consumer.client_id)
        assert topic in printed and "PROP_CONSUME_TYPE" in printed
        assert "jstack" not in printed
        stacks = ("consumerStatus", "-g", group, "-i", consumer.client_id, "-s")
        printed = await asyncio.to_thread(cluster.mqadmin.run, *stacks)
        assert "#Consumer jstack#" in printed and "asyncio" in printed, printed
        printed = await asyncio.to_thread(
            cluster.mqadmin.run,
            *("queryMsgById", "-t", topic, "-i", sent.offset_message_id, "-g", group, "-d", consumer.client_id),
        )
        assert "CR_SUCCESS" in printed
        assert seen == [b"x", b"x"]


class Commits:
    """Commits at once; a broker that has not seen it after a second asks."""

    def execute(self, message: Message, argument: object) -> TransactionState:
        return TransactionState.COMMIT

    def check(self, message: ReceivedMessage) -> TransactionState:
        return TransactionState.UNKNOWN


@marked(OF_OURS, "message trace")
async def test_traces_of_ours_at_a_java_broker(cluster: JavaCluster, topic: str) -> None:
    seen: list[ReceivedMessage] = []
    consumer = PushConsumer(f"{topic}-group", cluster.namesrv, start_from="first", trace=True)
    consumer.subscribe(topic, "*", seen.append)
    producer = TransactionProducer(f"{topic}-senders", cluster.namesrv, Commits(), trace=True)
    async with producer, consumer:
        sent = await producer.send(Message(topic, b"12345", tags="A", keys=f"{topic}-key"))
        decided = await producer.send_in_transaction(Message(topic, b"yes", keys=f"{topic}-yes"))
        await until(lambda: len(seen) == 2, "both messages", PROCESS_PATIENCE)
    steps: list[TraceContext] = []
    ids = {sent.message_id, decided.sent.message_id}
    async with PullConsumer(f"{topic}-watch", cluster.namesrv, start_from="first") as reader:
        reader.subscribe(TRACE_TOPIC)
        deadline = asyncio.get_running_loop().time() + PROCESS_PATIENCE
        while len(steps) < 7 and asyncio.get_running_loop().time() < deadline:
            for message in await reader.poll(1.0):
                found = decode_trace(message.body.decode())
                steps += [s for s in found if s.beans[0].message_id in ids and not s.beans[0].from_check]
    kinds = sorted(step.kind for step in steps)
    assert kinds == ["EndTransaction", "Pub", "Pub", "SubAfter", "SubAfter", "SubBefore", "SubBefore"]
    (end,) = [step.beans[0] for step in steps if step.kind == "EndTransaction"]
    assert (end.transaction_state, end.from_check) == ("COMMIT_MESSAGE", False)
    printed = await asyncio.to_thread(cluster.mqadmin.run, "queryMsgTraceById", "-i", sent.message_id)
    lines = [line.split()[:2] for line in printed.splitlines()]
    assert ["Pub", f"{topic}-senders"] in lines, printed
    assert ["Sub", f"{topic}-group"] in lines, printed


class AddressServer(BaseHTTPRequestHandler):
    """Answers every GET with the name server's address; `asked` are the paths."""

    namesrv = ""
    asked: list[str] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.namesrv.encode() + b"\n")

    def log_message(self, format: str, *arguments: object) -> None:
        """Keep the test's output clean."""


@marked(OF_OURS, "name servers by environment and HTTP")
async def test_discovery(cluster: JavaCluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    AddressServer.namesrv, AddressServer.asked = cluster.namesrv, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), AddressServer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()

    async def send() -> None:
        async with Producer("P") as producer:
            await producer.send(Message(topic, b"x"))

    try:
        monkeypatch.setenv(DOMAIN, f"127.0.0.1:{server.server_port}")
        await send()
        monkeypatch.setenv("NAMESRV_ADDR", f"127.0.0.1:1;{cluster.namesrv}")
        await send()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert AddressServer.asked == ["/rocketmq/nsaddr"]
    assert len(await received(cluster.namesrv, topic, 2)) == 2
