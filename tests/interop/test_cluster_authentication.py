"""A broker of RocketMQ 5.5.0 at our name server and controller with `clusterAuthenticationEnabled`: it signs."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.interop.controlled_set import ControlledBrokers
from proof.interop.java_artefacts import BROKER_VERSION
from proof.interop.java_processes import JavaBroker
from proof.kit.our_processes import OurController, OurNameServer
from proof.kit.wire import SUCCESS, Wire
from tests.interop.signed import SETTINGS

pytestmark = [pytest.mark.java, pytest.mark.slow]

PROVIDER = {"authenticationMetadataProvider": SETTINGS["authenticationMetadataProvider"]}
"""RocketMQ demands it with these credentials."""
CREDENTIALS = {"innerClientAuthenticationCredentials": SETTINGS["innerClientAuthenticationCredentials"]}
GUARD = {"clusterAuthenticationEnabled": "true", **CREDENTIALS}
GET_ROUTE = 105


def test_broker_of_5_registers_by_its_signature(tmp_path: Path) -> None:
    namesrv = OurNameServer(tmp_path / "namesrv", GUARD)
    broker = JavaBroker(tmp_path / "broker", namesrv.address, SETTINGS, version=BROKER_VERSION)
    try:
        with Wire(namesrv.port) as wire:
            assert wire.ask(GET_ROUTE, {"topic": "TBW102"}).code == SUCCESS
    finally:
        broker.kill()
        namesrv.kill()


def test_broker_of_5_joins_and_leads_a_set_by_its_signature(tmp_path: Path) -> None:
    controller = OurController(tmp_path / "controller", GUARD)
    of = ControlledBrokers(tmp_path, controller, {**CREDENTIALS, **PROVIDER})
    try:
        of.start(1, "java")
        of.leads(1)
    finally:
        of.stop()
        controller.kill()
