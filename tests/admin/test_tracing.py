"""The trace of a message: which records are found, and how they are joined to steps."""

from __future__ import annotations

from bolide.admin.tracing import CONSUME, SEND, TRANSACTION, found_trace, steps_of
from bolide.client import TRACE_TOPIC, Message
from bolide.client.tracing.trace import (
    CONSUME_BEGINS,
    CONSUME_ENDS,
    SENT,
    TRANSACTION_ENDS,
    TraceBean,
    TraceContext,
    encode_trace,
)
from bolide.layout.limits import MAX_FOUND
from bolide.testing.broker import Broker
from proof.kit.waiting import until_answered
from tests.admin.cluster_of_one import clients

ID = "C00002020F077C37380F9164DE700001"
BEAN = TraceBean(ID, "orders", store_host="10.0.0.1:10911")


def recorded(kind: str, at: int, group: str = "G", **more: object) -> TraceContext:
    return TraceContext(kind, at, group, (BEAN,), **more)  # type: ignore[arg-type]  # a test's own keywords


def test_a_send_two_groups_and_a_transaction() -> None:
    retried = TraceContext(CONSUME_BEGINS, 300, "B", (TraceBean(ID, retry_times=2),), request_id="b")
    steps = steps_of(
        {
            recorded(SENT, 100, cost_ms=5): "10.0.0.7:1",
            recorded(CONSUME_BEGINS, 200, "A", request_id="a"): "10.0.0.8:1",
            recorded(CONSUME_ENDS, 240, "A", request_id="a", cost_ms=40): "10.0.0.8:1",
            retried: "10.0.0.9:1",
            TraceContext(
                TRANSACTION_ENDS, 150, "G", (TraceBean(ID, transaction_state="COMMIT_MESSAGE", from_check=True),)
            ): "10.0.0.7:1",
        }
    )
    told = [(step.kind, step.group, step.status, step.begin, step.cost_ms, step.retries) for step in steps]
    assert told == [
        (SEND, "G", "stored", 100, 5, 0),
        (TRANSACTION, "G", "COMMIT_MESSAGE after a check", 150, 0, 0),
        (CONSUME, "A", "consumed", 200, 40, 0),
        (CONSUME, "B", "started, end not reported", 300, None, 2),
    ]
    assert [step.client for step in steps] == [f"10.0.0.{host}:1" for host in (7, 7, 8, 9)]
    assert steps[0].broker == "10.0.0.1:10911" and not any(step.failed for step in steps)


def test_an_end_whose_start_is_not_recorded_is_a_step() -> None:
    other = recorded(CONSUME_BEGINS, 300, "A", request_id="b")
    step, _ = steps_of([recorded(CONSUME_ENDS, 240, "A", request_id="a", cost_ms=40, success=False), other])
    assert (step.status, step.begin, step.failed) == ("failed, start not reported", 200, True)


async def test_a_trace_that_reaches_the_limit_of_a_broker_says_so(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):

        async def record(count: int) -> None:
            for _ in range(count):
                number[0] += 1
                body = encode_trace(recorded(CONSUME_BEGINS, number[0], request_id=str(number[0]))).encode()
                await producer.send(Message(TRACE_TOPIC, body, keys=ID))

        async def found() -> tuple[int, bool]:
            trace = await found_trace(admin, ID)
            return len(trace.steps), trace.limit_reached

        number = [0]
        await record(MAX_FOUND - 1)
        await until_answered(found, (MAX_FOUND - 1, False))
        await record(2)
        await until_answered(found, (MAX_FOUND, True))
        # A larger number does not change the limit of the broker.
        assert (await found_trace(admin, ID, max_messages=1_000)).limit_reached
        assert len(await admin.message_trace(ID)) == MAX_FOUND


async def test_damaged_records_are_counted_and_times_select(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        await producer.send(Message(TRACE_TOPIC, encode_trace(recorded(SENT, 1)).encode(), keys=ID))
        await producer.send(Message(TRACE_TOPIC, b"Pub\x01?\x02", keys=ID))

        async def found() -> tuple[int, int]:
            trace = await found_trace(admin, ID)
            return len(trace.steps), trace.unreadable

        await until_answered(found, (1, 1))
        assert (await found_trace(admin, ID, end=1_500_000_000_000)).steps == []
