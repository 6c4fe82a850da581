"""Which brokers are avoided, for how long, and what a producer makes of it."""

from __future__ import annotations

import pytest

from bolide.client import Message, Retry
from bolide.client.producing.latency_faults import LatencyFaults, penalty
from bolide.remoting import codes
from tests.client.patient import Producer
from tests.client.scripted_broker import ScriptedBroker, refusing


@pytest.mark.parametrize(
    ("latency", "seconds"),
    [(0.05, 0), (0.549, 0), (0.55, 2), (1.799, 2), (1.8, 5), (3, 6), (5, 10), (10, 10), (15, 30), (99, 30)],
)
def test_penalties_are_those_of_5(latency: float, seconds: float) -> None:
    assert penalty(latency) == seconds


def test_the_last_send_counts() -> None:
    faults = LatencyFaults()
    faults.note("slow", 2.0, False, 100.0)
    faults.note("broken", 0.0, True, 100.0)
    assert faults.unavailable(104.9) == {"slow", "broken"}
    assert faults.unavailable(105.0) == {"broken"}
    assert faults.unavailable(110.0) == set()
    faults.note("broken", 0.01, False, 101.0)
    assert faults.unavailable(102.0) == {"slow"}


class FailuresAlone(LatencyFaults):
    """Failures count, and for an hour: on a slow machine every broker answers slowly now and then."""

    def note(self, broker_name: str, latency: float, failed: bool, now: float) -> None:
        super().note(broker_name, 0.0, failed, now + 3600)


@pytest.mark.parametrize("latency_faults", [False, True])
async def test_a_failing_broker_is_avoided(latency_faults: bool) -> None:
    with ScriptedBroker("broker-a") as first, ScriptedBroker("broker-b") as second:
        first.others.append(second)
        first.script[codes.SEND_MESSAGE_V2] = refusing(codes.SYSTEM_ERROR)
        async with Producer("P", first.address, retry=Retry(latency_faults=latency_faults)) as producer:
            assert (producer._sender.faults is not None) == latency_faults
            producer._sender.faults = FailuresAlone() if latency_faults else None
            for _ in range(20):
                result = await producer.send(Message("T", b"x"))
                assert result.queue.broker_name == "broker-b"
        tries = len(first.requests(codes.SEND_MESSAGE_V2))
        assert (tries <= 1) if latency_faults else (tries > 1)


async def test_a_quick_answer_makes_up_for_a_failure(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address, retry=Retry(latency_faults=True)) as producer:
        assert producer._sender.faults is not None
        later = producer._sender.loop.time() + 3600  # a failure costs ten seconds: none passes meanwhile
        producer._sender.faults.note("broker-a", 0.0, True, later)
        assert producer._sender.faults.unavailable(later) == {"broker-a"}
        while producer._sender.faults.unavailable(later):  # an answer may be slow, too
            await producer.send(Message("T", b"x"))  # the only broker: slow or not, it is used
