"""Traces of sends and of consumption, as a reader of the trace topic gets them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bolide import client
from bolide.client import Message, ReceivedMessage, RetryLater, TransactionState
from bolide.client.messages.send_result import SendResult, send_result
from bolide.client.tracing.interceptor import SendCall
from bolide.client.tracing.trace import DELAYED, FAILED, HALF, NORMAL, SUCCESS, TraceContext, decode_trace
from bolide.client.tracing.tracer import BATCH, MAX_WAITING, Tracer
from bolide.layout.names import TRACE_TOPIC
from bolide.layout.sysflag import TRANSACTION_PREPARED
from bolide.testing.broker import Broker
from proof.kit.waiting import PROCESS_PATIENCE, until
from tests.client.patient import Producer, PullConsumer, PushConsumer, TransactionProducer


async def traces(namesrv: str, count: int) -> tuple[list[TraceContext], list[str]]:
    """So many steps of the trace topic, and the keys their messages are found by."""
    found: list[TraceContext] = []
    keys: list[str] = []
    async with PullConsumer("Reader", namesrv, start_from="first") as reader:
        reader.subscribe(TRACE_TOPIC)
        async with asyncio.timeout(PROCESS_PATIENCE):
            while len(found) < count:
                for message in await reader.poll(1.0):
                    found += decode_trace(message.body.decode())
                    keys += message.keys
    return found, keys


@pytest.mark.bolide_broker(trace_topic_enable=True)
@pytest.mark.parametrize("plain", [False, True])
async def test_a_message_leaves_its_trace(bolide_broker: Broker, plain: bool) -> None:
    namesrv = bolide_broker.namesrv_addr
    async with Producer("P", namesrv, trace=True) as producer:
        sent = await producer.send(Message("T", b"12345", tags="A", keys=["k1", "k2"]))
        await producer.send_batch([Message("T", b"1"), Message("T", b"2")])
        await producer.send(Message("T", b"later", delay_level=1))
    seen: list[bytes] = []

    def take(message: ReceivedMessage) -> None:
        seen.append(message.body)
        if message.body == b"12345" and message.reconsume_times == 0:
            raise RetryLater(1)

    async def take_async(message: ReceivedMessage) -> None:
        take(message)

    consumer = PushConsumer("G", namesrv, start_from="first", trace=True)
    consumer.subscribe("T", "*", take if plain else take_async)
    async with consumer:
        await until(lambda: len(seen) == 5, "four messages and a retry")
    found, keys = await traces(namesrv, 4 + 5 + 5)
    pubs = [context for context in found if context.kind == "Pub"]
    assert sorted(context.beans[0].body_length for context in pubs) == [1, 1, 5, 5]
    first = next(context for context in pubs if context.beans[0].message_id == sent.message_id)
    assert first.group == "P" and first.success and first.region_id == "DefaultRegion"
    bean = first.beans[0]
    assert (bean.topic, bean.tags, bean.keys, bean.message_type) == ("T", "A", "k1 k2", NORMAL)
    assert (bean.store_host, bean.offset_message_id) == (bolide_broker.broker_addr, sent.offset_message_id)
    assert {context.beans[0].message_type for context in pubs} == {NORMAL, DELAYED}
    assert {sent.message_id, "k1", "k2"} <= set(keys)
    begun = {context.request_id: context for context in found if context.kind == "SubBefore"}
    ended = {context.request_id: context for context in found if context.kind == "SubAfter"}
    assert begun.keys() == ended.keys() and len(begun) == 5
    ours = [key for key, context in begun.items() if context.beans[0].message_id == sent.message_id]
    assert {(begun[key].beans[0].retry_times, ended[key].context_code) for key in ours} == {
        (0, FAILED),
        (1, SUCCESS),
    }
    assert {context.group for context in ended.values()} == {"G"}


class Sink:
    """A sender that keeps what it is given."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    async def start(self) -> None:
        """Nothing to start."""

    async def close(self) -> None:
        """Nothing to close."""

    def submit(self, message: Message) -> asyncio.Future[SendResult]:
        """Keep it."""
        self.sent.append(message)
        return asyncio.get_running_loop().create_future()


class Commits:
    """Commits what it runs, and what it is asked about."""

    def execute(self, message: Message, argument: TransactionState) -> TransactionState:
        return argument

    def check(self, message: ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT


async def test_a_transaction_leaves_its_end(tmp_path: Path) -> None:
    """The broker asks once it has come back: beside a slow machine's first sends it would ask too early."""
    with Broker(str(tmp_path), trace_topic_enable=True, transaction_check_interval=3_600_000) as broker:
        async with TransactionProducer("P", broker.namesrv_addr, Commits(), trace=True) as producer:
            for state in (TransactionState.ROLLBACK, TransactionState.UNKNOWN):
                sent = (await producer.send_in_transaction(Message("T", b"12345", tags="A", keys="k"), state)).sent
    asks = {"transaction_check_interval": 200, "transaction_time_out": 100, "transaction_check_max": 1_000_000}
    with Broker(str(tmp_path), trace_topic_enable=True, **asks) as broker:
        namesrv = broker.namesrv_addr
        consumer = PullConsumer("G", namesrv, start_from="first")
        # They are one client: with the consumer's heartbeat the broker knows whom to ask.
        async with TransactionProducer("P", namesrv, Commits(), trace=True), consumer:
            consumer.subscribe("T")
            assert [message.message_id for message in await consumer.poll(60)] == [sent.message_id]
        found, keys = await traces(namesrv, 2 + 3)
        assert {context.beans[0].message_type for context in found if context.kind == "Pub"} == {HALF}
        ends = [context for context in found if context.kind == "EndTransaction"]
        # A broker asks again when it is not answered soon.
        assert list(dict.fromkeys((end.beans[0].transaction_state, end.beans[0].from_check) for end in ends)) == [
            ("ROLLBACK_MESSAGE", False),
            ("UNKNOW", False),
            ("COMMIT_MESSAGE", True),
        ]
        last = ends[-1].beans[0]
        assert (last.message_id, last.transaction_id, last.topic) == (sent.message_id, sent.message_id, "T")
        assert (last.tags, last.keys, last.store_host) == ("A", "k", broker.broker_addr)
        assert "k" in keys


@pytest.mark.bolide_broker(trace_topic_enable=True)
async def test_polled_messages_are_traced_as_consumed(bolide_broker: Broker) -> None:
    namesrv = bolide_broker.namesrv_addr
    async with Producer("P", namesrv) as producer:
        sent = await producer.send(Message("T", b"1"))
    async with PullConsumer("G", namesrv, start_from="first", trace=True) as consumer:
        consumer.subscribe("T")
        assert len(await consumer.poll(60)) == 1
    found, _ = await traces(namesrv, 2)
    assert [(context.kind, context.success) for context in found] == [("SubBefore", True), ("SubAfter", True)]
    assert {context.beans[0].message_id for context in found} == {sent.message_id}


def call(message: Message, ext: dict[str, str] | None = None, sys_flag: int = 0) -> SendCall:
    result = send_result(0, ext or {}, "ID", message.topic, "b")
    return SendCall("P", message, message_id="ID", result=result, sys_flag=sys_flag)


async def test_steps_travel_together_and_some_not_at_all() -> None:
    sink = Sink()
    tracer = Tracer(sink)
    await tracer.start()
    for _ in range(BATCH):
        assert sink.sent == []
        tracer.after_send(call(Message("T", b"x"), sys_flag=TRANSACTION_PREPARED))
    assert len(decode_trace(sink.sent[0].body.decode())) == BATCH
    assert {item.beans[0].message_type for item in decode_trace(sink.sent[0].body.decode())} == {HALF}
    tracer.after_send(call(Message("T", b"x"), {"TRACE_ON": "false"}))
    tracer.after_send(call(Message(TRACE_TOPIC, b"x")))
    tracer.after_send(SendCall("P", Message("T", b"x"), error=ValueError()))
    tracer.after_send(call(Message("A", b"x")))
    tracer.after_send(call(Message("B", b"x", keys="k" * 15_000)))
    tracer.after_send(call(Message("B", b"x", keys="l" * 15_000)))
    await tracer.close()
    assert [len(decode_trace(item.body.decode())) for item in sink.sent] == [BATCH, 1, 1, 1]
    assert tracer.dropped == 0


async def test_a_full_buffer_drops() -> None:
    class Stuck(Tracer):
        stuck = True

        def _flush(self) -> None:
            if not self.stuck:
                super()._flush()

    sink = Sink()
    tracer = Stuck(sink)
    await tracer.start()
    for _ in range(MAX_WAITING + 3):
        tracer.after_send(call(Message("T", b"x")))
    assert tracer.dropped == 3
    tracer.stuck = False
    await tracer.close()
    assert sum(len(decode_trace(item.body.decode())) for item in sink.sent) == MAX_WAITING


@pytest.mark.parametrize("kind", [client.Producer, client.PushConsumer, client.PullConsumer])
def test_traces_go_by_the_options_of_the_client_they_are_of(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "not an address")
    traced = kind("G", "127.0.0.1:1", trace=True, instance_name="other", namespace="ns")
    (tracer,) = traced._sender.interceptors if kind is client.Producer else traced._interceptors
    options = traced._sender.options if kind is client.Producer else traced._member.options
    assert tracer._sender._sender.options is options and options.namespace == "ns"
    assert tracer._sender.group == f"_INNER_TRACE_PRODUCER-G-{'PRODUCE' if kind is client.Producer else 'CONSUME'}"
