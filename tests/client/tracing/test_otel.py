"""Spans of sends and listeners, read back from the SDK's in-memory exporter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from bolide.client import Message, MessageRefused, ReceivedMessage, RetryLater, TransactionState, blocking
from bolide.client.tracing.otel import OpenTelemetry
from bolide.testing.broker import Broker
from proof.kit.waiting import until
from tests.client.patient import Producer, PullConsumer, PushConsumer, TransactionProducer


class Telemetry:
    """An interceptor, and the spans that have ended."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.interceptors = (OpenTelemetry(self.provider),)
        self.tracer = self.provider.get_tracer("test")

    def named(self, name: str) -> list[ReadableSpan]:
        """The spans of a name, in the order they ended."""
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    found = Telemetry()
    yield found
    found.provider.shutdown()


def parent_id(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


@pytest.mark.parametrize("plain", [False, True])
async def test_trace_spans_caller_listener_and_its_send(
    bolide_broker: Broker, telemetry: Telemetry, plain: bool
) -> None:
    namesrv = bolide_broker.namesrv_addr
    seen: list[ReceivedMessage] = []
    async with Producer("P", namesrv, interceptors=telemetry.interceptors) as producer:

        async def forward(message: ReceivedMessage) -> None:
            seen.append(message)
            if message.topic == "T":
                await producer.send(Message("Next", b"2"))

        def work(message: ReceivedMessage) -> None:
            seen.append(message)
            with telemetry.tracer.start_as_current_span("work"):
                pass

        consumer = PushConsumer("G", namesrv, start_from="first", interceptors=telemetry.interceptors)
        consumer.subscribe("T", "*", work if plain else forward)
        with telemetry.tracer.start_as_current_span("order"):
            sent = await producer.send(Message("T", b"1", tags="A", keys="k1 k2", sharding_key="s"))
        async with consumer:
            await until(lambda: telemetry.named("process T"), "the end of the listener")
    (order,), (send,), (process,) = (telemetry.named(name) for name in ("order", "send T", "process T"))
    (inner,) = telemetry.named("work" if plain else "send Next")
    assert parent_id(send) == order.context.span_id
    assert parent_id(process) == send.context.span_id
    assert parent_id(inner) == process.context.span_id
    assert len({span.context.trace_id for span in (order, send, process, inner)}) == 1
    assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert send.attributes is not None and process.attributes is not None
    host, port = bolide_broker.broker_addr.split(":")
    assert dict(send.attributes) == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "T",
        "messaging.destination.partition.id": str(sent.queue.queue_id),
        "messaging.message.id": sent.message_id,
        "messaging.message.body.size": 1,
        "messaging.rocketmq.client_group": "P",
        "messaging.rocketmq.message.type": "fifo",
        "messaging.rocketmq.message.group": "s",
        "messaging.rocketmq.message.tag": "A",
        "messaging.rocketmq.message.keys": ("k1", "k2"),
        "server.address": host,
        "server.port": int(port),
    }
    assert dict(process.attributes) == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "T",
        "messaging.destination.partition.id": str(sent.queue.queue_id),
        "messaging.message.id": sent.message_id,
        "messaging.message.body.size": 1,
        "messaging.consumer.group.name": "G",
        "messaging.rocketmq.message.group": "s",
        "messaging.rocketmq.message.tag": "A",
        "messaging.rocketmq.message.keys": ("k1", "k2"),
    }
    assert seen[0].properties["traceparent"].split("-")[2] == f"{send.context.span_id:016x}"
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_failures_are_errors(bolide_broker: Broker, telemetry: Telemetry) -> None:
    namesrv = bolide_broker.namesrv_addr
    outcomes = [RetryLater(1), False, None]

    async def fail(message: ReceivedMessage) -> bool | None:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    consumer = PushConsumer(
        "G", namesrv, start_from="first", orderly=True, orderly_pause=0.01, interceptors=telemetry.interceptors
    )
    consumer.subscribe("T", "*", fail)
    async with Producer("P", namesrv, interceptors=telemetry.interceptors) as producer, consumer:
        with pytest.raises(MessageRefused):
            await producer.send(Message("T"))
        await producer.send(Message("T", b"1"))
        await until(lambda: len(telemetry.named("process T")) == 3, "three tries")
    refused, sent = telemetry.named("send T")
    assert (refused.status.status_code, sent.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    tries = telemetry.named("process T")
    assert [(span.attributes or {}).get("error.type") for span in (refused, sent, *tries)] == [
        *("MessageRefused", None, "RetryLater", "retry", None)
    ]
    assert [span.status.is_ok for span in tries] == [False, False, True]


async def test_batches_and_polls_are_linked(bolide_broker: Broker, telemetry: Telemetry) -> None:
    namesrv = bolide_broker.namesrv_addr
    async with Producer("P", namesrv, interceptors=telemetry.interceptors) as producer:
        await producer.send_batch([Message("T", b"%d" % number) for number in range(4)])
    consumer = PushConsumer("G", namesrv, start_from="first", interceptors=telemetry.interceptors)
    consumer.subscribe("T", "*", lambda batch: None, batch=2)
    async with consumer:
        await until(lambda: len(telemetry.named("process T")) == 2, "both batches")
    async with PullConsumer("H", namesrv, start_from="first", interceptors=telemetry.interceptors) as puller:
        puller.subscribe("T")
        assert len(await puller.poll(60)) == 4
    sends = {span.context.span_id for span in telemetry.named("send T")}
    assert len(sends) == 4
    process, (receive,) = telemetry.named("process T"), telemetry.named("receive T")
    assert [span.kind for span in (*process, receive)] == [SpanKind.CONSUMER, SpanKind.CONSUMER, SpanKind.CLIENT]
    assert [span.parent for span in (*process, receive)] == [None] * 3  # a call leaves nothing for the next one
    linked = [{link.context.span_id for link in span.links} for span in (*process, receive)]
    assert linked[0] | linked[1] == linked[2] == sends and not linked[0] & linked[1]
    assert [(span.attributes or {})["messaging.batch.message_count"] for span in (*process, receive)] == [2, 2, 4]


class Commits:
    """Commits at once."""

    def execute(self, message: Message, argument: object) -> TransactionState:
        return TransactionState.COMMIT

    def check(self, message: ReceivedMessage) -> TransactionState:
        raise AssertionError("nothing is left open")


async def test_kinds_of_messages(bolide_broker: Broker, telemetry: Telemetry) -> None:
    namesrv = bolide_broker.namesrv_addr
    async with TransactionProducer("P", namesrv, Commits(), interceptors=telemetry.interceptors) as producer:
        await producer.send(Message("T", b"1"))
        await producer.send(Message("T", b"1", delay_level=2))
        await producer.send(Message("T", b"1", deliver_at=1_700_000_000_000))
        await producer.send_in_transaction(Message("T", b"1"))
    found = [span.attributes or {} for span in telemetry.named("send T")]
    prefix = "messaging.rocketmq.message."
    assert [span[f"{prefix}type"] for span in found] == ["normal", "delay", "delay", "transaction"]
    assert [span.get(f"{prefix}delay_time_level") for span in found] == [None, 2, None, None]
    assert [span.get(f"{prefix}delivery_timestamp") for span in found] == [None, None, 1_700_000_000_000, None]


def test_the_blocking_client_sends_in_the_span_of_its_caller(bolide_broker: Broker, telemetry: Telemetry) -> None:
    namesrv = bolide_broker.namesrv_addr
    with blocking.Producer("P", namesrv, interceptors=telemetry.interceptors) as producer:
        with telemetry.tracer.start_as_current_span("order"):
            producer.send(Message("T", b"1"))
    (order,), (send,) = telemetry.named("order"), telemetry.named("send T")
    assert parent_id(send) == order.context.span_id
