"""A set with acting masters in one event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bolide.namesrv.options import NamesrvOptions
from bolide.node.broker import BrokerNode
from bolide.node.namesrv import NamesrvNode
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_answer
from bolide.remoting.bodies.route import TopicRouteData
from bolide.remoting.command import Command, make_request
from bolide.transport.client import ClientConnection
from proof.kit.ports import reserve_port
from proof.kit.waiting import PATIENCE
from tests.node.brokers import options
from tests.node.replication.parts import SMALL


class ActingSet:
    """A name server, and brokers of one name."""

    def __init__(self, folder: Path, names: NamesrvNode) -> None:
        self.folder = folder
        self.names = names
        self.running: dict[str, BrokerNode] = {}

    async def start(self, name: str, number: int, **more: Any) -> BrokerNode:
        """A broker with a store of its own: the master under number 0."""
        settings: dict[str, Any] = {
            **SMALL,
            "broker_role": "SLAVE" if number else "SYNC_MASTER",
            "broker_id": number,
            "ha_listen_port": reserve_port(),
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
    client = await ClientConnection.connect(address, PATIENCE)
    try:
        return await client.request(command, PATIENCE)
    finally:
        client.close()
        await client.wait_closed()


def commit(offset: int, code: int = codes.UPDATE_CONSUMER_OFFSET) -> Command:
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": str(offset)}
    return make_request(code, 0, fields)
