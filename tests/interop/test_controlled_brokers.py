"""Sets of real brokers under a controller, killed: ours alone, ours with Java's 5.5.0, ours under Java's controller."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.interop.java_processes import JavaBroker, JavaController
from tests.interop.our_processes import OurBroker, OurController, OurNameServer
from tests.interop.processes import free_ports, until
from tests.interop.records import stored
from tests.interop.wire import PULL_MESSAGE, SEND_MESSAGE_V2, SUCCESS, Wire, pull_ext, send_ext

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("controlled-brokers")]

SYNC_STATE = 1006
SECONDS = 180
Kind = Literal["ours", "java"]


class ControlledBrokers:
    """Brokers of one name, and what was acknowledged."""

    def __init__(self, home: Path, controller: OurController | JavaController, settings: dict[str, str]) -> None:
        self.home = home
        self.controller = controller
        self.settings = settings
        self.namesrv = OurNameServer(home / "namesrv")
        self.kinds: dict[int, Kind] = {}
        self.ports = [free_ports(1, -2) for _ in range(3)]
        self.brokers: dict[int, OurBroker | JavaBroker] = {}
        self.acknowledged: list[bytes] = []
        self.number = 0

    def start(self, number: int, kind: Kind = "ours") -> None:
        """Start the broker with this id, or start it again, and wait until it is in sync."""
        kind = self.kinds.setdefault(number, kind)
        settings = {
            "enableControllerMode": "true",
            "controllerAddr": self.controller.address,
            "fastPortEnable": "true",
            "flushDiskType": "SYNC_FLUSH",
            "slaveTimeout": "30000",
            **self.settings,
        }
        home, port = self.home / f"broker{number}", self.ports[number - 1]
        if kind == "ours":
            self.brokers[number] = OurBroker(home, self.namesrv.address, settings, port=port)
        else:
            self.brokers[number] = JavaBroker(home, self.namesrv.address, settings, port=port)
        until(lambda: number in self.in_sync(), SECONDS, f"{number} is in sync")

    def kill(self, number: int) -> None:
        """SIGKILL."""
        self.brokers.pop(number).kill()

    def state(self) -> dict[str, Any]:
        """What the controller says of the set."""
        with Wire(self.controller.port) as wire:
            answer = wire.ask(SYNC_STATE, body=b'["broker-a"]')
        if answer.code != SUCCESS:
            return {}
        found: dict[str, Any] = json.loads(answer.body)["replicasInfoTable"].get("broker-a", {})
        return found

    def in_sync(self) -> set[int]:
        """The ids of the replicas in sync."""
        return {one["brokerId"] for one in self.state().get("inSyncReplicas", [])}

    def send(self, number: int, count: int) -> int:
        """Send messages to a broker, one after the other; how many it acknowledged."""
        done = 0
        try:
            with Wire(self.ports[number - 1]) as wire:
                for _ in range(count):
                    self.number += 1
                    body = b"%d " % self.number + bytes(200)
                    if wire.ask(SEND_MESSAGE_V2, send_ext("T"), body).code == SUCCESS:
                        self.acknowledged.append(body)
                        done += 1
        except (OSError, AssertionError):
            return done
        return done

    def leads(self, number: int) -> None:
        """Wait until a broker acknowledges."""
        until(lambda: self.send(number, 1) == 1, SECONDS, f"{number} acknowledges")

    def bodies(self, number: int) -> list[bytes]:
        """All that a consumer gets of the one queue that is used."""
        found: list[bytes] = []
        with Wire(self.ports[number - 1]) as wire:
            while True:
                answer = wire.ask(PULL_MESSAGE, pull_ext("T", 0, len(found)))
                if answer.code != SUCCESS:
                    return found
                records = stored(answer.body)
                assert [record.queue_offset for record in records] == list(range(len(found), len(found) + len(records)))
                found += [record.body for record in records]

    def complete(self, number: int) -> None:
        """Nothing that was acknowledged is missing at this broker."""
        at = {body: place for place, body in enumerate(self.bodies(number))}
        assert [body for body in self.acknowledged if body not in at] == []
        places = [at[body] for body in self.acknowledged]
        assert places == sorted(places)

    def stop(self) -> None:
        """End all."""
        for broker in self.brokers.values():
            broker.kill()
        self.namesrv.kill()
        self.controller.kill()


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[OurController]:
    server = OurController(tmp_path / "controller")
    yield server
    server.kill()


def test_ours_fail_over_and_back_with_nothing_acknowledged_lost(controller: OurController, tmp_path: Path) -> None:
    of = ControlledBrokers(tmp_path, controller, {"inSyncReplicas": "2"})
    try:
        of.start(1)
        of.start(2)
        of.leads(1)
        assert of.send(1, 100) == 100
        of.kill(1)
        until(lambda: of.state().get("masterBrokerId") == 2, SECONDS, "the slave is elected")
        of.start(1)
        of.leads(2)
        assert of.send(2, 100) == 100
        of.complete(2)
        of.kill(2)
        until(lambda: of.state().get("masterBrokerId") == 1, SECONDS, "the old master is elected")
        of.start(2)
        of.leads(1)
        of.complete(1)
    finally:
        of.stop()


@pytest.mark.java
def test_ours_and_javas_replace_each_other(controller: OurController, tmp_path: Path) -> None:
    of = ControlledBrokers(tmp_path, controller, {"allAckInSyncStateSet": "true"})
    try:
        of.start(1, "ours")
        of.leads(1)
        of.start(2, "java")
        until(lambda: of.send(1, 1) == 1, SECONDS, "both have it")
        assert of.send(1, 50) == 50
        of.kill(1)
        of.leads(2)
        of.complete(2)
        assert of.send(2, 50) == 50
        of.start(1)
        until(lambda: of.send(2, 1) == 1, SECONDS, "both have it")
        assert of.send(2, 50) == 50
        of.kill(2)
        of.leads(1)
        of.complete(1)
        of.start(2)
        until(lambda: of.send(1, 1) == 1, SECONDS, "both have it")
    finally:
        of.stop()


@pytest.mark.java
def test_ours_fail_over_under_javas_controller(tmp_path: Path) -> None:
    of = ControlledBrokers(tmp_path, JavaController(tmp_path / "controller"), {"allAckInSyncStateSet": "true"})
    try:
        of.start(1)
        of.start(2)
        of.leads(1)
        assert of.send(1, 50) == 50
        of.kill(1)
        of.leads(2)
        of.start(1)
        assert of.send(2, 50) >= 49
        of.complete(2)
    finally:
        of.stop()
