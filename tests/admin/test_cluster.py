"""Calls on brokers and name servers, against a broker of our own."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bolide.admin.cluster import BrokerRow, ReplicaRow
from bolide.client import ClientStateError, NoQueue, ResponseError
from bolide.remoting.bodies.route import BrokerData, ClusterInfo
from bolide.testing.broker import Broker
from proof.kit.waiting import PATIENCE
from tests.admin.cluster_of_one import TOPIC, clients
from tests.client.patient import Admin
from tests.node.replication.controlled import controlled


async def test_brokers_with_their_figures(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, _):
        (row,) = await admin.brokers()
        assert (row.cluster, row.broker_id, row.address, row.error) == (
            "DefaultCluster",
            0,
            bolide_broker.broker_addr,
            "",
        )
        assert row.version == "V5_5_0"
        assert (await admin.broker_runtime(row.broker_name))["brokerVersion"] == "513"
        assert (await admin.broker_config(row.address))["brokerName"] == row.broker_name
        assert await admin.master_addresses() == await admin.master_addresses("DefaultCluster") == [row.address]
        assert list(await admin.namesrv_config()) == [bolide_broker.namesrv_addr]
        with pytest.raises(NoQueue):
            await admin.broker_runtime("nobody")


def test_a_row_says_whether_its_broker_serves() -> None:
    row = BrokerRow("c", "b", 0, "a:1", {"brokerVersionDesc": "V5_5_0"})
    assert (row.state, row.serves) == ("serves", True)  # Java's tell nothing of it
    row = replace(row, runtime={"storeState": "refuses: the disk is full"})
    assert (row.state, row.serves) == ("refuses: the disk is full", False)
    row = replace(row, runtime={}, error="no answer")
    assert (row.state, row.serves) == ("no answer", False)


def test_a_row_says_what_its_broker_is() -> None:
    master = BrokerRow("c", "b", 0, "a:1", {})
    assert (master.role, replace(master, runtime={"brokerRole": "SYNC_MASTER"}).role) == ("MASTER", "SYNC_MASTER")
    slave = replace(master, broker_id=1)  # Java's tell nothing of it
    assert (slave.role, slave.state, slave.serves) == ("SLAVE", "follows", True)
    full = replace(slave, runtime={"storeState": "refuses: the disk is full"})
    assert not full.serves


async def test_write_permission_goes_and_comes_back(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, _):
        (row,) = await admin.brokers(runtime=False)
        assert sum((await admin.wipe_write_permission(row.broker_name)).values()) > 0
        assert (await admin.topic_route(TOPIC)).write_queues() == []
        await admin.add_write_permission(row.broker_name)
        assert len((await admin.topic_route(TOPIC)).write_queues()) == 2


async def test_not_started_says_so(bolide_broker: Broker) -> None:
    admin = Admin(bolide_broker.namesrv_addr)
    with pytest.raises(ClientStateError, match="not started"):
        await admin.topics()
    async with admin:
        assert await admin.start() is admin
    await admin.close()


async def test_a_set_is_handed_over_to_a_member_that_is_in_sync(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of, Admin(of.names.address) as admin:
        first = await of.start("a")
        await of.leads(first)
        second = await of.start("b")
        await of.all_in_sync(1, 2)
        members = await admin.members("broker-a")
        assert [(row.broker_id, row.address, row.master, row.in_sync, row.alive) for row in members] == [
            (1, first.address, True, True, True),
            (2, second.address, False, True, True),
        ]
        assert [row.role for row in members] == ["MASTER", "SLAVE"]
        assert await admin.members_of_sets() == members == await admin.members_of_sets("broker-a")
        with pytest.raises(ResponseError):
            await admin.switch_master("broker-a", 7)
        assert await admin.switch_master("broker-a", 2, of.controller.address) == 2
        await of.leads(second)
        with pytest.raises(NoQueue, match="has no set broker-b"):
            await admin.members("broker-b", of.controller.address)
        with pytest.raises(NoQueue, match="no broker of broker-b has controllerAddr set"):
            await admin.members("broker-b")


class Unauthorized(Admin):
    """An administrator whom no broker tells its figures."""

    async def broker_runtime(self, broker: str) -> dict[str, str]:
        raise ResponseError(f"{broker} answered with NO_PERMISSION (16)", 16)


async def test_broker_that_refuses_was_reached(bolide_broker: Broker) -> None:
    async with Unauthorized(bolide_broker.namesrv_addr) as admin:
        (row,) = await admin.brokers()
        assert (row.refused, row.serves, "NO_PERMISSION" in row.error) == (True, False, True)


class TwoKeepTheirLogs(Admin):
    """An administrator of a set without a master. Its slaves answer once both have been asked."""

    asked = 0
    reached = 0

    async def cluster_info(self) -> ClusterInfo:
        self.asked += 1
        return ClusterInfo({"a": BrokerData("C", "a", {1: "a:1", 2: "a:2"})}, {"C": ["a"]})

    async def broker_runtime(self, broker: str) -> dict[str, str]:
        self.reached += 1
        async with asyncio.timeout(PATIENCE):
            while self.reached < 2:
                await asyncio.sleep(0)
        return {"replicationRefused": "both logs differ", "commitLogMaxOffset": "7"} if broker == "a:2" else {}


async def test_replicas_are_asked_together() -> None:
    admin = TwoKeepTheirLogs()
    assert await admin.replicas() == [ReplicaRow("a", "", 0, "a:2", kept="both logs differ")]
    assert (admin.asked, admin.reached) == (1, 2)
    admin.reached = 0
    assert [(row.broker_id, len(row.runtime)) for row in await admin.brokers()] == [(1, 0), (2, 2)]
