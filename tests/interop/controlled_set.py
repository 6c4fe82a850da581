"""A set of real brokers under a controller, ours or Java's, for tests and for the bench."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from tests.interop.acknowledged import Acknowledged, bodies_at
from tests.interop.java_processes import JavaBroker, JavaController
from tests.interop.our_processes import OurBroker, OurController, OurNameServer
from tests.interop.processes import free_ports, until
from tests.interop.wire import SUCCESS, Wire

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
        self.acknowledged = Acknowledged(200)

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
        return self.acknowledged.send(self.ports[number - 1], count)

    def leads(self, number: int) -> None:
        """Wait until a broker acknowledges."""
        until(lambda: self.send(number, 1) == 1, SECONDS, f"{number} acknowledges")

    def complete(self, number: int) -> None:
        """Nothing that was acknowledged is missing at this broker."""
        at = {body: place for place, body in enumerate(bodies_at(self.ports[number - 1]))}
        assert [body for body in self.acknowledged.bodies if body not in at] == []
        places = [at[body] for body in self.acknowledged.bodies]
        assert places == sorted(places)

    def stop(self) -> None:
        """End all."""
        for broker in self.brokers.values():
            broker.kill()
        self.namesrv.kill()
        self.controller.kill()
