"""A broker with small files and a client of it, and the requests to send and to pull."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bolide.broker.options.composed import BrokerOptions
from bolide.node.broker import BrokerNode
from bolide.node.machine.node_world import NodeWorld
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.testing.broker import SMALL
from bolide.transport.client import ClientConnection
from proof.kit.waiting import PATIENCE

SYNCED: dict[str, Any] = {"flush_disk_type": "SYNC_FLUSH", "sync_flush_timeout": 60_000}
"""For a test that is about the wait for the disk, which may be a slow one."""


def options(folder: Path, **more: Any) -> BrokerOptions:
    """A broker of small files; it answers without a wait for the disk, and refuses no send because the machine stood
    still, unless told otherwise."""
    return BrokerOptions.of(store_path_root_dir=str(folder), **{**SMALL, "listen_port": 0, **more})


@asynccontextmanager
async def broker(
    folder: Path, world: NodeWorld | None = None, **more: Any
) -> AsyncIterator[tuple[BrokerNode, ClientConnection]]:
    node = BrokerNode(options(folder, **more), world=world)
    await node.start()
    try:
        client = await ClientConnection.connect(node.address, PATIENCE)
        try:
            yield node, client
        finally:
            client.close()
            await client.wait_closed()
    finally:
        await node.stop()


def send_request(topic: str = "T", body: bytes = b"hello", properties: str = "", **more: str) -> Command:
    ext = {
        "a": "pg",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": "1",
        "h": "0",
        "i": properties,
        "j": "0",
        **more,
    }
    return make_request(codes.SEND_MESSAGE_V2, 0, ext, body)


def pull_request(topic: str = "T", offset: int = 0, sys_flag: int = 4, suspend: int = 0, **more: str) -> Command:
    ext = {
        "consumerGroup": "g",
        "topic": topic,
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": str(sys_flag),
        "commitOffset": "0",
        "suspendTimeoutMillis": str(suspend),
        "subVersion": "0",
        "subscription": "*",
        **more,
    }
    return make_request(codes.PULL_MESSAGE, 0, ext)
