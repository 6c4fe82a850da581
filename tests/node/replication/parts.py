"""Masters and slaves in one loop, with small log files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bolide.node.broker import BrokerNode
from bolide.node.machine.node_world import NodeWorld
from bolide.remoting import codes
from bolide.remoting.command import Command
from bolide.transport.client import ClientConnection
from proof.kit.ports import reserve_port
from proof.kit.waiting import PATIENCE, until
from tests.node.brokers import options, send_request

FILE = 64 * 1024
SMALL = {"mapped_file_size_commit_log": FILE, "max_message_size": 16 * 1024}
WAITS_MS = 30_000
"""How long a master waits for slaves: one that is about to connect, on a machine that stands still, too."""


@asynccontextmanager
async def node_of(folder: Path, world: NodeWorld | None = None, **more: Any) -> AsyncIterator[BrokerNode]:
    """A running broker; it is stopped in the end, unless it was."""
    settings = {
        **SMALL,
        "ha_send_heartbeat_interval": 200,
        "ha_housekeeping_interval": 600_000,
    }
    node = BrokerNode(options(folder, **{**settings, **more}), world=world)
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


def master(folder: Path, **more: Any) -> Any:
    """A SYNC_MASTER that waits for one slave, unless told otherwise; its log is served at `ha_listen_port`."""
    settings = {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2, "ha_listen_port": reserve_port()}
    settings["slave_timeout"] = WAITS_MS
    return node_of(folder, **{**settings, **more})


def slave(folder: Path, of: BrokerNode, **more: Any) -> Any:
    """A slave of that master."""
    address = f"127.0.0.1:{of.options.replication.ha_listen_port}"
    return node_of(folder, **{"broker_role": "SLAVE", "broker_id": 1, "ha_master_address": address, **more})


async def send(node: BrokerNode, count: int, size: int = 500, first: int = 0) -> list[Command]:
    """Send messages, all at once; their answers."""
    client = await ClientConnection.connect(node.address, PATIENCE)
    try:
        bodies = [b"%d " % (first + number) + bytes(size) for number in range(count)]
        return list(await asyncio.gather(*(client.request(send_request("T", body), PATIENCE) for body in bodies)))
    finally:
        client.close()
        await client.wait_closed()


def codes_of(answers: list[Command]) -> set[int]:
    """The codes of answers."""
    return {answer.code for answer in answers}


OK = {codes.SUCCESS}


def log_of(node: BrokerNode, begin: int = 0) -> bytes:
    """The log as it is in memory and on disk, blanks included."""
    return bytes(node.store.log.segments.read(begin, int(node.store.written_offset) - begin))


async def same(of: BrokerNode, to: BrokerNode, begin: int = 0) -> None:
    """Wait until the slave has dispatched the whole log, and compare."""
    await until(lambda: int(to.store.dispatched_offset) == int(of.store.written_offset))
    assert log_of(to, begin) == log_of(of, begin)
    for topic in of.store.topics_in_queues():
        for queue in of.store.queue_ids(topic):
            assert to.store.max_queue_offset(topic, queue) == of.store.max_queue_offset(topic, queue)
