"""A drain outlives the restart of a name server and a broker that is busy, and names the state that it leaves."""

from __future__ import annotations

import asyncio

import pytest

from bolide.admin.drain import Left, NotDrained, drain
from bolide.client import NoQueue, ResponseError
from bolide.errors import BolideError, ConnectionLost
from bolide.remoting import codes
from bolide.testing.broker import Broker
from tests.admin.failing_requests import FailingAdmin
from tests.client.patient import Admin

SET = "broker-a"
UNDO = "bolide cluster drain broker-a --undo"


def busy(times: int = 1) -> list[BolideError]:
    return [ResponseError("the broker is busy", codes.SYSTEM_BUSY) for _ in range(times)]


async def writable(admin: Admin) -> bool:
    """Whether producers of T are told to use the set."""
    return bool((await admin.topic_route("T")).write_queues())


async def test_drain_repeats_requests_that_fail_for_a_moment(bolide_broker: Broker) -> None:
    async with FailingAdmin(bolide_broker.namesrv_addr) as admin:
        await admin.create_topic("T")
        admin.errors = {
            codes.WIPE_WRITE_PERM_OF_BROKER: [ConnectionLost("the name server is away")],
            codes.GET_BROKER_CONSUME_STATS: busy(),
            codes.GET_BROKER_RUNTIME_INFO: busy(),
        }
        seen: list[list[Left]] = []
        failures: list[str] = []
        await drain(admin, SET, 60, seen.append, 0.0, lambda error: failures.append(str(error)))
        assert seen == [[]] and admin.pending == []
        assert failures == ["the name server is away", "the broker is busy", "the broker is busy"]
        assert not await writable(admin)


async def test_drain_that_fails_to_the_end_names_its_cause_and_the_ways_on(bolide_broker: Broker) -> None:
    async with FailingAdmin(bolide_broker.namesrv_addr) as admin:
        await admin.create_topic("T")
        admin.errors[codes.GET_BROKER_CONSUME_STATS] = busy()
        with pytest.raises(NotDrained, match=r"after 0 s \(the broker is busy\): its producers stay away") as caught:
            await drain(admin, SET, 0, lambda left: None, 0.0)
        assert "run this command again" in str(caught.value) and UNDO in str(caught.value)
        assert not await writable(admin)


async def test_drain_ends_when_a_server_rejects_it_for_good(bolide_broker: Broker) -> None:
    async with FailingAdmin(bolide_broker.namesrv_addr) as admin:
        admin.errors[codes.GET_BROKER_CONSUME_STATS] = [ResponseError("no right", codes.NO_PERMISSION)]
        with pytest.raises(NotDrained, match="not drained: no right; its producers may stay away") as caught:
            await drain(admin, SET, 60, lambda left: None, 0.0)
        assert UNDO in str(caught.value)


async def test_drain_of_an_unknown_set_changes_nothing(bolide_broker: Broker) -> None:
    async with FailingAdmin(bolide_broker.namesrv_addr) as admin:
        with pytest.raises(NoQueue, match="no master of broker elsewhere"):
            async with asyncio.timeout(60):
                await drain(admin, "elsewhere", 3600, lambda left: None)
        assert codes.WIPE_WRITE_PERM_OF_BROKER not in admin.sent
