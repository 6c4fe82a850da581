"""Sets with acting masters in one loop: who reads where while the master is away, and what it knows when it returns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bolide.namesrv.options import NamesrvOptions
from bolide.node.broker import BrokerNode
from bolide.node.namesrv import NamesrvNode
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_answer
from bolide.remoting.bodies.route import TopicRouteData
from bolide.remoting.command import Command, make_request
from bolide.transport.client import ClientConnection
from proof.kit.processes import free_ports
from proof.kit.waiting import PATIENCE
from tests.node.replication.parts import FILE, OK, codes_of, same, send, until
from tests.node.test_broker import options, pull_request


class ActingSet:
    """A name server, and brokers of one name."""

    def __init__(self, folder: Path, names: NamesrvNode) -> None:
        self.folder = folder
        self.names = names
        self.running: dict[str, BrokerNode] = {}

    async def start(self, name: str, number: int, **more: Any) -> BrokerNode:
        """A broker with a store of its own: the master under number 0."""
        settings: dict[str, Any] = {
            "mapped_file_size_commit_log": FILE,
            "max_message_size": 16 * 1024,
            "broker_role": "SLAVE" if number else "SYNC_MASTER",
            "broker_id": number,
            "ha_listen_port": free_ports(),
            "namesrv_addr": self.names.address,
            "slave_read_enable": True,
            "enable_slave_acting_master": True,
            "total_replicas": 2,
            "broker_heartbeat_interval": 200,
            "broker_not_active_timeout_millis": 120_000,
            "sync_broker_member_group_period": 60_000 if number else 100,
            "ha_send_heartbeat_interval": 200,
            "ha_housekeeping_interval": 600_000,
            "slave_timeout": 60_000,
            "register_name_server_period": 60_000,
        }
        node = BrokerNode(options(self.folder / name, **{**settings, **more}))
        await node.start()
        self.running[name] = node
        return node

    async def stop(self, name: str) -> None:
        await self.running.pop(name).stop()

    async def restart_names(self) -> None:
        """Another name server under the same address, which knows nothing."""
        await self.names.stop()
        self.names = await started_names(self.folder, self.names.port)

    async def route(self) -> TopicRouteData:
        """What a client is told of the topic."""
        answer = await asked(self.names.address, make_request(codes.GET_ROUTEINFO_BY_TOPIC, 0, {"topic": "T"}))
        return decode_answer(answer.body, TopicRouteData)

    async def lists(self, *ids: int) -> None:
        """Wait until the name server lists these brokers of the set."""
        header = {"clusterName": "DefaultCluster", "brokerName": "broker-a"}
        async with asyncio.timeout(PATIENCE):
            while True:
                answer = await asked(self.names.address, make_request(codes.GET_BROKER_MEMBER_GROUP, 0, header))
                if set(json.loads(answer.body)["brokerMemberGroup"]["brokerAddrs"]) == set(map(str, ids)):
                    return
                await asyncio.sleep(0.02)


async def started_names(folder: Path, port: int = 0) -> NamesrvNode:
    names = NamesrvNode(
        NamesrvOptions(
            listen_port=port,
            kv_config_path=str(folder / "kv.json"),
            support_acting_master=True,
            notify_min_broker_id_changed=True,
        )
    )
    await names.start()
    return names


@asynccontextmanager
async def acting(folder: Path) -> AsyncIterator[ActingSet]:
    """A name server that runs; brokers that run at the end are stopped."""
    made = ActingSet(folder, await started_names(folder))
    try:
        yield made
    finally:
        for node in made.running.values():
            await node.stop()
        await made.names.stop()


async def asked(address: str, command: Command) -> Command:
    client = await ClientConnection.connect(address)
    try:
        return await client.request(command, PATIENCE)
    finally:
        client.close()
        await client.wait_closed()


def commit(offset: int, code: int = codes.UPDATE_CONSUMER_OFFSET) -> Command:
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": str(offset)}
    return make_request(code, 0, fields)


@pytest.mark.parametrize("compatible", [True, False])
async def test_a_slave_acts_while_the_master_is_away_which_then_knows_what_was_consumed(
    tmp_path: Path, compatible: bool
) -> None:
    async with acting(tmp_path) as of:
        more = {"compatible_with_old_name_srv": compatible}
        first = await of.start("a", 0, **more)
        second = await of.start("b", 1, **more)
        await of.lists(0, 1)
        assert codes_of(await send(first, 10)) == OK
        await same(first, second)
        await until(lambda: "T" in second.parts.topics.table)
        assert (await asked(second.address, pull_request(offset=10))).code == codes.PULL_RETRY_IMMEDIATELY
        await of.stop("a")
        await until(lambda: second.parts.role.acting)
        assert codes_of(await send(second, 1)) == {codes.SERVICE_NOT_AVAILABLE}
        (broker,) = (await of.route()).broker_datas
        assert broker.broker_addrs == {0: second.address}, "clients are shown a master"
        assert {queue.perm for queue in (await of.route()).queue_datas} == {4}
        found = await asked(second.address, pull_request(offset=0))
        assert found.code == codes.SUCCESS and found.ext()["suggestWhichBrokerId"] == "0"
        assert (await asked(second.address, pull_request(offset=10))).code == codes.PULL_NOT_FOUND, "readers stay"
        assert (await asked(second.address, commit(7))).code == codes.SUCCESS
        held = asyncio.create_task(asked(second.address, pull_request(offset=10, sys_flag=6, suspend=600_000)))
        await until(lambda: second._hold.count == 1)
        first = await of.start("a", 0, **more)
        await of.lists(0, 1)
        assert (await held).code == codes.PULL_RETRY_IMMEDIATELY, "readers go back"
        known = await asked(first.address, commit(0, codes.QUERY_CONSUMER_OFFSET))
        assert known.ext()["offset"] == "7"
        await until(lambda: not second.parts.role.masterless)
        assert codes_of(await send(first, 10)) == OK
        await same(first, second)
        assert {queue.perm for queue in (await of.route()).queue_datas} == {6}


async def test_a_master_registers_once_the_slave_that_runs_follows(tmp_path: Path) -> None:
    async with acting(tmp_path) as of:
        # The name server does not know the master yet: the slave is told by the master alone where its log is.
        second = await of.start("b", 1)
        await of.lists(1)
        await until(lambda: second.parts.role.acting)
        first = await of.start("a", 0, ha_send_heartbeat_interval=60_000)
        await of.lists(0, 1)
        assert first._joining.followed_by("127.0.0.1")
        assert codes_of(await send(first, 5)) == OK
        await same(first, second)


async def test_a_slave_that_never_follows_does_not_keep_its_master_away(tmp_path: Path) -> None:
    async with acting(tmp_path) as of:
        second = await of.start("b", 1, ha_master_address="127.0.0.1:1")
        await until(lambda: second.parts.role.acting)
        first = await of.start("a", 0)
        await of.lists(0, 1)
        assert not first._joining.followed_by("127.0.0.1")
        assert codes_of(await send(first, 5)) == OK


async def test_a_broker_that_a_name_server_took_for_dead_registers_again(tmp_path: Path) -> None:
    async with acting(tmp_path) as of:
        first = await of.start("a", 0)
        second = await of.start("b", 1)
        await of.lists(0, 1)
        gone = {"brokerName": "broker-a", "brokerAddr": first.address, "clusterName": "DefaultCluster"}
        left = make_request(codes.UNREGISTER_BROKER, 0, {**gone, "brokerId": "0"})
        assert (await asked(of.names.address, left)).code == codes.SUCCESS
        async with asyncio.timeout(30):  # registerNameServerPeriod is 60 s
            await of.lists(0, 1)
        await until(lambda: not second.parts.role.masterless)


async def test_sends_wait_for_as_many_as_are_in_sync_or_are_refused(tmp_path: Path) -> None:
    async with acting(tmp_path) as of:
        first = await of.start("a", 0, in_sync_replicas=2, total_replicas=1)
        await until(lambda: first.parts.role.short)
        (refused,) = await send(first, 1)
        assert (refused.code, refused.remark) == (codes.SYSTEM_ERROR, "in-sync replicas not enough")
        second = await of.start("b", 1, total_replicas=1)
        await until(lambda: not first.parts.role.short)
        assert codes_of(await send(first, 10)) == OK
        await same(first, second)
        await of.stop("b")
        await until(lambda: first.parts.role.short)
        assert codes_of(await send(first, 1)) == {codes.SYSTEM_ERROR}


async def test_sends_wait_for_fewer_where_fewer_are_there(tmp_path: Path) -> None:
    async with acting(tmp_path) as of:
        auto = {"in_sync_replicas": 2, "enable_auto_in_sync_replicas": True, "total_replicas": 1}
        first = await of.start("a", 0, **auto)
        assert codes_of(await send(first, 5)) == OK
        second = await of.start("b", 1, total_replicas=1)
        await of.lists(0, 1)
        await until(lambda: first._joining.slaves is not None and first._joining.slaves.in_sync(0) == 1)
        assert codes_of(await send(first, 5)) == OK
        assert int(second.store.written_offset) == int(first.store.written_offset)
        await of.stop("b")
        await until(lambda: first._joining.slaves is not None and first._joining.slaves.in_sync(0) == 0)
        assert codes_of(await send(first, 5)) == OK
