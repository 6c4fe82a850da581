"""The settings select one replication mode."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from bolide.node.machine.node_world import RealNodeWorld
from bolide.node.replication.acting import ActingMode
from bolide.node.replication.controller_mode import ControllerMode
from bolide.node.replication.default_ha import MasterMode, SlaveMode
from bolide.node.replication.ha_client import LoopParts
from bolide.node.replication.mode import ModeParts, ReplicationMode
from bolide.node.replication.modes import replication_mode
from bolide.node.replication.slave_port import SlavePort
from bolide.node.routes.registrar import Place
from bolide.store.startup.recovery import RecoveryReport
from proof.kit.ports import reserve_port
from tests.broker.parts import NOW, Parts

LOG = logging.getLogger("test")
NAMES = {"namesrv_addr": "127.0.0.1:1"}


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({}, ReplicationMode),
        ({"broker_role": "SYNC_MASTER"}, MasterMode),
        ({"broker_role": "SLAVE", "broker_id": 1}, SlaveMode),
        ({**NAMES, "enable_slave_acting_master": True}, ActingMode),
        ({**NAMES, "enable_controller_mode": True, "controller_addr": "127.0.0.1:1"}, ControllerMode),
    ],
)
async def test_each_setting_selects_its_mode(tmp_path: Path, settings: dict[str, Any], kind: type) -> None:
    parts, world = Parts(tmp_path, bind_address="127.0.0.1", **settings), RealNodeWorld()
    port = SlavePort(parts.options, world, reserve_port(), LOG)
    loop = LoopParts(parts.effects, lambda: None, lambda: NOW, world, LOG)
    place = Place("127.0.0.1:1", "127.0.0.1:2")
    made = ModeParts(
        parts.options, world, parts.store, RecoveryReport(), parts.role, place, port, loop, lambda error: None
    )
    mode = replication_mode(made)
    assert type(mode) is kind
    assert (mode.side is None) == (kind is ReplicationMode or kind is ActingMode), "an acting master without a port"
    await mode.stop()
    port.close()
    parts.close()
