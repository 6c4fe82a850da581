"""Figures of a producer and its consumers, read back from a registry."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from bolide.client import Message, MessageRefused, ReceivedMessage, RetryLater
from bolide.client.tracing.prometheus import PrometheusMetrics
from bolide.testing.broker import Broker
from proof.kit.waiting import until
from tests.client.patient import Producer, PullConsumer, PushConsumer


async def test_sends_and_listeners_are_counted_and_timed(bolide_broker: Broker) -> None:
    registry, namesrv = CollectorRegistry(), bolide_broker.namesrv_addr
    metrics = PrometheusMetrics(registry)

    def figure(name: str, **labels: str) -> float:
        return registry.get_sample_value(name, {"topic": "T", **labels}) or 0

    async def listener(message: ReceivedMessage) -> None:
        if message.body == b"bad" and not message.reconsume_times:
            raise RetryLater

    consumer = PushConsumer("G", namesrv, start_from="first", interceptors=(metrics,))
    consumer.subscribe("T", "*", listener)
    async with Producer("P", namesrv, interceptors=(metrics,)) as producer:
        for body in (b"good", b"good", b"bad"):
            await producer.send(Message("T", body))
        with pytest.raises(MessageRefused):
            await producer.send(Message("T", bytes(5 << 20)))
        sends = "rocketmq_send_cost_time_count"
        assert figure(sends, producer_group="P", invocation_status="success") == 3
        assert figure(sends, producer_group="P", invocation_status="failure") == 1
        async with consumer:
            good = {"consumer_group": "G", "invocation_status": "success"}
            await until(lambda: figure("bolide_client_consumed_total", **good) == 2, "two messages to be consumed")
            bad = {"consumer_group": "G", "invocation_status": "failure"}
            await until(lambda: figure("rocketmq_process_time_count", **bad) == 1, "the third to fail")
        assert figure("rocketmq_process_time_count", **good) == 2
        assert figure("rocketmq_await_time_count", consumer_group="G") == 3
    async with PullConsumer("Polls", namesrv, start_from="first", interceptors=(metrics,)) as polls:
        polls.subscribe("T")
        found: list[ReceivedMessage] = []
        while len(found) < 3:
            found += await polls.poll(timeout=1.0)
    polled = {"consumer_group": "Polls", "invocation_status": "success"}
    assert figure("bolide_client_consumed_total", **polled) == 3
    assert figure("rocketmq_process_time_count", **polled) == 0


async def test_cached_messages_are_shown_while_a_consumer_runs(bolide_broker: Broker) -> None:
    registry, namesrv = CollectorRegistry(), bolide_broker.namesrv_addr
    metrics = PrometheusMetrics(registry)
    labels = {"topic": "Cached", "consumer_group": "Slow"}

    def figure(name: str) -> float | None:
        return registry.get_sample_value(name, labels)

    go_on = asyncio.Event()

    async def listener(message: ReceivedMessage) -> None:
        await go_on.wait()

    consumer = PushConsumer("Slow", namesrv, start_from="first", interceptors=(metrics,), namespace="N")
    consumer.subscribe("Cached", "*", listener)
    async with Producer("P", namesrv, namespace="N") as producer:
        for _ in range(3):
            await producer.send(Message("Cached", b"four"))
    async with consumer:
        await until(lambda: figure("rocketmq_consumer_cached_messages") == 3, "three messages to wait")
        assert figure("rocketmq_consumer_cached_bytes") == 12
        go_on.set()
        await until(lambda: figure("rocketmq_consumer_cached_messages") == 0, "all to be done")
        assert figure("rocketmq_consumer_cached_bytes") == 0
    assert figure("rocketmq_consumer_cached_messages") is None


class Cache:
    """Figures of one consumer."""

    def __init__(self, count: int, size: int, paused: int) -> None:
        self.figures = (count, size)
        self.queues = paused

    def __call__(self) -> dict[str, tuple[int, int]]:
        return {"T": self.figures}

    def paused(self) -> dict[str, int]:
        return {"T": self.queues}


def test_consumers_of_a_group_are_one_sum_of_those_that_have_not_left() -> None:
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    first, second = Cache(1, 10, 3), Cache(2, 20, 1)

    def figures() -> list[float | None]:
        names = ("rocketmq_consumer_cached_messages", "rocketmq_consumer_cached_bytes", "bolide_client_paused_queues")
        return [registry.get_sample_value(name, {"topic": "T", "consumer_group": "G"}) for name in names]

    metrics.joined("G", first)
    metrics.joined("G", second)
    assert figures() == [3, 30, 4]
    metrics.left("G", first)
    assert figures() == [2, 20, 1]
    metrics.left("G", second)
    assert figures() == [None, None, None]


def test_a_registry_takes_one() -> None:
    registry = CollectorRegistry()
    PrometheusMetrics(registry)
    with pytest.raises(ValueError, match="rocketmq_send_cost_time"):
        PrometheusMetrics(registry)
