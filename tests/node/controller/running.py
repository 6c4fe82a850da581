"""A running controller, and brokers that ask it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bolide.access.users import Credentials, signed
from bolide.controller.options import ControllerOptions
from bolide.node.controller.node import ControllerNode
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.transport.client import ClientConnection
from proof.kit.waiting import PATIENCE, until

SET = {"clusterName": "C", "brokerName": "b"}


class Broker:
    """What a broker asks, over a connection of its own."""

    def __init__(self, client: ClientConnection, broker_id: int, address: str) -> None:
        self.client = client
        self.id = broker_id
        self.address = address
        self.credentials: Credentials | None = None

    async def ask(self, code: int, body: bytes = b"", **fields: object) -> Command:
        ext = SET | {name: str(value) for name, value in fields.items()}
        return await self.client.request(signed(make_request(code, 0, ext, body), self.credentials), PATIENCE)

    async def join(self) -> None:
        ask = codes.CONTROLLER_APPLY_BROKER_ID
        check = f"{self.address};{self.id}"
        assert (await self.ask(ask, appliedBrokerId=self.id, registerCheckCode=check)).code == 0
        await self.beat()

    async def beat(self) -> None:
        answer = await self.ask(codes.BROKER_HEARTBEAT, brokerAddr=self.address, brokerId=self.id)
        assert answer.code == 0

    async def elect(self) -> Command:
        return await self.ask(codes.CONTROLLER_ELECT_MASTER, brokerId=self.id, designateElect="false")

    async def info(self) -> dict[str, str]:
        return dict((await self.ask(codes.CONTROLLER_GET_REPLICA_INFO)).ext())


def options(folder: Path, **settings: Any) -> ControllerOptions:
    own = {"controller_store": f"file:{folder}/sets.json", "config_store_path": f"{folder}/own.conf", "listen_port": 0}
    return ControllerOptions(**own | settings)


@asynccontextmanager
async def controller(folder: Path, world: Any = None, **settings: Any) -> AsyncIterator[ControllerNode]:
    node = ControllerNode(options(folder, **settings), world=world)
    await node.start()
    await until(lambda: node._controller.leads, "the controller to lead")
    try:
        yield node
    finally:
        await node.stop()


@asynccontextmanager
async def brokers(node: ControllerNode, *addresses: str) -> AsyncIterator[list[Broker]]:
    made = [
        Broker(await ClientConnection.connect(node.address, PATIENCE), number, where)
        for number, where in enumerate(addresses, 1)
    ]
    try:
        yield made
    finally:
        for one in made:
            one.client.close()
            await one.client.wait_closed()


async def paired(first: Broker, second: Broker) -> None:
    """The first is master of epoch 1, both are in sync."""
    await first.join()
    await second.join()
    assert (await first.elect()).code == 0
    body = b'{"syncStateSet":[1,2],"syncStateSetEpoch":1}'
    assert (await first.ask(codes.CONTROLLER_ALTER_SYNC_STATE_SET, body, masterBrokerId=1, masterEpoch=1)).code == 0
