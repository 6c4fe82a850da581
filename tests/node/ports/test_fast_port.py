"""When a broker listens two ports below its own, and what happens if that port is taken."""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from bolide.node.broker import BrokerNode
from bolide.node.ports.daemon_port import CannotListen
from bolide.node.ports.fast_port import fast_port
from bolide.remoting import codes
from bolide.remoting.command import make_request
from bolide.transport.client import ClientConnection
from bolide.world.real import THE_WORLD
from proof.kit.ports import reserve_port
from proof.kit.waiting import PATIENCE
from tests.node.brokers import options

LOG = logging.getLogger("bolide.test")
ACTING_SLAVE = {
    "broker_role": "SLAVE", "broker_id": 1, "slave_read_enable": True, "enable_slave_acting_master": True,
    "namesrv_addr": "127.0.0.1:1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "opens"),
    [
        ({"broker_role": "SYNC_MASTER"}, True),
        ({"ha_listen_port": 10912}, True),
        (ACTING_SLAVE, True),
        ({}, False),
        ({"broker_role": "SLAVE", "broker_id": 1}, False),
        ({"fast_port_enable": "true"}, True),
        ({"broker_role": "SYNC_MASTER", "fast_port_enable": "false"}, False),
    ],
)
def test_the_port_opens_where_brokers_of_rocketmq_use_it(settings: dict[str, Any], opens: bool, tmp_path: Path) -> None:
    port = reserve_port(-2)
    made = fast_port(options(tmp_path, **settings), port, THE_WORLD, LOG)
    assert (made.number if made else 0) == (port - 2 if opens else 0)
    if made is not None:
        made.close()


def test_a_taken_port_stops_only_the_broker_that_was_told_to_open_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port = reserve_port(-2)
    with socket.socket() as other:
        other.bind(("127.0.0.1", port - 2))
        other.listen()
        assert fast_port(options(tmp_path, broker_role="SYNC_MASTER"), port, THE_WORLD, LOG) is None
        assert "listenPort - 2): address already in use" in caplog.text
        assert "slaves of RocketMQ ask for topics" in caplog.text
        with pytest.raises(CannotListen):
            fast_port(options(tmp_path, fast_port_enable="true"), port, THE_WORLD, LOG)
    assert fast_port(options(tmp_path, broker_role="SYNC_MASTER"), 2, THE_WORLD, LOG) is None
    assert "listenPort = 2 is too low for the fast port" in caplog.text


async def test_slaves_of_a_master_find_its_topics_at_the_fast_port(tmp_path: Path) -> None:
    port = reserve_port(-2, 1)
    node = BrokerNode(options(tmp_path, listen_port=port, broker_role="SYNC_MASTER"))
    await node.start()
    client = await ClientConnection.connect(f"127.0.0.1:{port - 2}", PATIENCE)
    answer = await client.request(make_request(codes.GET_ALL_TOPIC_CONFIG, 0, {}), PATIENCE)
    assert answer.code == codes.SUCCESS and b"TBW102" in answer.body
    client.close()
    await client.wait_closed()
    await node.stop()
