"""What waits, and traces, against a broker of the test's own."""

from __future__ import annotations

import pytest

from bolide.client import Message, ResponseError
from bolide.layout.names import TRACE_TOPIC
from bolide.testing.broker import Broker
from proof.kit.waiting import until_answered
from tests.admin.cluster_of_one import TOPIC, clients
from tests.client.patient import Producer


async def test_timed_messages_are_counted_by_topic(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        assert await admin.timed_messages() == {}
        for _ in range(3):
            await producer.send(Message(TOPIC, b"x", delay=3_600))
        await until_answered(admin.timed_messages, {TOPIC: 3})


async def test_the_trace_of_a_message_is_found_by_its_id(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        async with Producer("traced", bolide_broker.namesrv_addr, trace=True) as traced:
            result = await traced.send(Message(TOPIC, b"x", keys="k"))
            other = await traced.send(Message(TOPIC, b"y"))
        # What is a trace by its key only is left out.
        await producer.send(Message(TRACE_TOPIC, b"Pub\x01?\x02", keys=result.message_id))

        async def steps() -> list[str]:
            return [step.kind for step in await admin.message_trace(result.message_id)]

        await until_answered(steps, ["Pub"])
        (step,) = await admin.message_trace(result.message_id)
        assert (step.group, step.beans[0].topic, step.beans[0].keys) == ("traced", TOPIC, "k")
        assert other.message_id != result.message_id


async def test_a_message_that_was_not_given_up_is_not_resumed(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        result = await producer.send(Message(TOPIC, b"x"))
        message = await admin.message(result.message_id, TOPIC)
        assert message is not None
        with pytest.raises(ResponseError, match="no half message was given up"):
            await admin.resume_check(message)
