"""Sets of brokers under a controller, in one loop, with small log files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bolide.controller.options import ControllerOptions
from bolide.namesrv.options import NamesrvOptions
from bolide.node.broker import BrokerNode
from bolide.node.controller.node import ControllerNode
from bolide.node.machine.node_world import NodeWorld
from bolide.node.namesrv import NamesrvNode
from bolide.remoting import codes
from bolide.remoting.command import make_request
from bolide.remoting.headers.controller import ElectMasterRequestHeader
from bolide.transport.client import ClientConnection
from proof.kit.ports import reserve_port
from proof.kit.waiting import PATIENCE, until
from tests.node.brokers import options
from tests.node.replication.parts import OK, SMALL, codes_of, same, send

QUICK = {
    "sync_broker_metadata_period": 200,
    "check_sync_state_set_period": 200,
    "broker_heartbeat_interval": 200,
    "ha_send_heartbeat_interval": 200,
    "controller_heart_beat_timeout_mills": 60_000,
    "ha_max_time_slave_not_catchup": 60_000,
    "ha_housekeeping_interval": 60_000,
    "slave_timeout": 60_000,
}


class ControlledSet:
    """A controller, a name server, and brokers of one name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._options = ControllerOptions(
            listen_port=reserve_port(), controller_store=f"file:{folder}/sets.json", scan_inactive_master_interval=200
        )
        self.controller = self.another_controller()
        self.names = NamesrvNode(NamesrvOptions(listen_port=0, kv_config_path=str(folder / "kv.json")))
        self.running: dict[str, BrokerNode] = {}

    def another_controller(self) -> ControllerNode:
        """One with the same port and file."""
        return ControllerNode(self._options, conf=str(self.folder / "controller.conf"))

    async def start(self, name: str, world: NodeWorld | None = None, **more: Any) -> BrokerNode:
        """A broker with a store of its own, on this machine or in a world of its own."""
        settings = {
            **SMALL,
            "enable_controller_mode": True,
            "controller_addr": self.controller.address,
            "namesrv_addr": self.names.address,
            "ha_listen_port": reserve_port(),
        }
        node = BrokerNode(options(self.folder / name, **{**settings, **QUICK, **more}), world=world)
        await node.start()
        self.running[name] = node
        return node

    async def pair(self, **more: Any) -> tuple[BrokerNode, BrokerNode]:
        """The brokers a and b: the first leads, and both are in sync."""
        first = await self.start("a", **more)
        await self.leads(first)
        second = await self.start("b", **more)
        await self.all_in_sync(1, 2)
        return first, second

    async def stop(self, name: str) -> None:
        """Stop a broker."""
        await self.running.pop(name).stop()

    def in_sync(self) -> set[int]:
        """The ids of the replicas in sync, as the controller has them."""
        found = self.controller._controller.sets.get("broker-a")
        return set() if found is None else set(found.value.in_sync)

    def master(self) -> BrokerNode:
        """The broker that takes messages; fails unless there is exactly one."""
        (found,) = [node for node in self.running.values() if node.parts.role.may_write]
        return found

    async def leads(self, node: BrokerNode) -> None:
        """Wait until a broker is the master."""
        await until(lambda: node.parts.role.may_write)

    async def all_in_sync(self, *ids: int) -> None:
        """Wait until these replicas are in sync, for the controller and for the master."""

        def agreed() -> bool:
            for node in self.running.values():
                switching = node._replication.side
                if node.parts.role.may_write and switching is not None and switching.sync_set is not None:
                    return self.in_sync() == set(ids) == set(switching.sync_set.members)
            return False

        await until(agreed)


@asynccontextmanager
async def controlled(folder: Path) -> AsyncIterator[ControlledSet]:
    """A controller and a name server that run; brokers that run at the end are stopped."""
    made = ControlledSet(folder)
    await made.controller.start()
    await made.names.start()
    try:
        yield made
    finally:
        for node in made.running.values():
            await node.stop()
        await made.names.stop()
        await made.controller.stop()


async def hand_over(folder: Path, **more: Any) -> None:
    """Run a set of two brokers with these settings through a change of its master. Both must have every message."""
    async with controlled(folder) as of:
        settings = {"all_ack_in_sync_state_set": True, **more}
        first, second = await of.pair(**settings)
        assert codes_of(await send(first, 20)) == OK
        await same(first, second)
        await of.stop("a")
        await of.leads(second)
        again = await of.start("a", **settings)
        await of.all_in_sync(1, 2)
        assert codes_of(await send(second, 20)) == OK
        await same(second, again)


async def elect(of: ControlledSet, broker_id: int) -> None:
    """An operator hands the set over."""
    header = ElectMasterRequestHeader(
        cluster_name="DefaultCluster", broker_name="broker-a", broker_id=broker_id, designate_elect=True
    )
    client = await ClientConnection.connect(of.controller.address, PATIENCE)
    answer = await client.request(make_request(codes.CONTROLLER_ELECT_MASTER, 0, header.to_ext()), PATIENCE)
    assert answer.code == codes.SUCCESS, answer.remark
    client.close()
    await client.wait_closed()
