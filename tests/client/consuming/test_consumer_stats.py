"""Rates of a consumer: windows of a minute and an hour, and what a broker is told of them."""

from __future__ import annotations

import pytest

from bolide.client import MessageQueue, ReceivedMessage
from bolide.client.consuming.consumer_stats import HOUR, MINUTE, ConsumerStats, Window
from bolide.client.instance.protocol_json import json_body
from bolide.remoting import codes
from proof.kit.waiting import until
from tests.client.consumer_parts import consumer, fill, pull_consumer
from tests.client.scripted_broker import ScriptedBroker


def test_a_window_forgets_what_is_older() -> None:
    window = Window(MINUTE, 0.0)
    for second in range(120):
        window.add(float(second), 2.0)
    # The slot of the present is not full: five whole slots, and 10 events of this one.
    assert window.total(119.0) == 120.0
    assert window.rate(119.0) == 2.0
    assert window.average(119.0) == 2.0
    assert window.total(175.0) == 0.0 == window.average(175.0)
    window.add(200.0, 7.0)
    assert window.total(200.0) == 7.0


def test_a_rate_at_the_start_is_over_the_time_that_has_passed() -> None:
    window = Window(HOUR, 1000.0)
    window.add(1001.0, 30.0)
    assert window.rate(1010.0) == 3.0
    assert window.rate(1000.1) == 30.0


def test_the_status_of_a_topic_is_java_s() -> None:
    stats = ConsumerStats()
    for second in range(10):
        stats.pulled("T", 30, 100.0 + second, 100.02 + second)
        stats.consumed("T", 30, 3, 100.0 + second, 100.005 + second)
    status = stats.status("T", 110.0)
    assert status["pullRT"] == pytest.approx(20.0)
    assert status["consumeRT"] == pytest.approx(5.0)
    assert status["pullTPS"] == pytest.approx(30.0, rel=0.02)
    assert status["consumeOKTPS"] == pytest.approx(27.0, rel=0.02)
    assert status["consumeFailedTPS"] == pytest.approx(3.0, rel=0.02)
    assert status["consumeFailedMsgs"] == 30
    later = stats.status("T", 1000.0)
    assert (later["consumeFailedMsgs"], later["consumeFailedTPS"], later["pullTPS"]) == (30, 0.0, 0.0)
    assert later["consumeRT"] == pytest.approx(5.0)  # at rest, that of the hour
    stats.forget("T")
    assert stats.status("T", 1000.0)["consumeFailedMsgs"] == 0


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_broker_that_asks_is_told_real_rates(orderly: bool, broker: ScriptedBroker) -> None:
    push = consumer(broker, orderly=orderly, orderly_pause=0.01)
    seen: list[bytes] = []

    def take(message: ReceivedMessage) -> bool:
        seen.append(message.body)
        return message.body != b"bad" or seen.count(b"bad") > 1

    push.subscribe("T", "*", take)
    async with push:
        broker.on_loop(lambda: [broker.store("T", 0, body, "") for body in (b"1", b"bad", b"2")])
        await until(lambda: {b"1", b"bad", b"2"} <= set(seen), "three messages")
        await until(lambda: push.position(MessageQueue("T", "broker-a", 0)) == 3, "the listener is through")

        broker.ask_all(codes.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "G", "clientId": push.client_id})
        await until(lambda: len(broker.answers) == 1, "the running info")
        status = json_body(broker.answers[0].body)["statusTable"]["T"]
    assert status["consumeFailedMsgs"] == 1
    assert status["consumeFailedTPS"] > 0
    assert status["consumeOKTPS"] >= status["consumeFailedTPS"]
    assert status["pullTPS"] > 0
    assert status["pullRT"] >= 0


async def test_a_pull_consumer_counts_its_pulls(broker: ScriptedBroker) -> None:
    fill(broker, 6)
    async with pull_consumer(broker) as reader:
        reader.subscribe("T")
        await until(lambda: bool(reader.assignment()), "the queues")
        taken = 0
        while taken < 6:
            taken += len(await reader.poll())
        broker.ask_all(codes.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "G", "clientId": "x"})
        await until(lambda: len(broker.answers) == 1, "the running info")
        status = json_body(broker.answers[0].body)["statusTable"]["T"]
    assert status["pullTPS"] > 0 == status["consumeOKTPS"]
