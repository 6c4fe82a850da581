"""A set of real brokers under a controller, ours or Java's, for tests and for the bench."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from bolide.remoting.json import parse_long
from proof.interop.acknowledged import Acknowledged, bodies_at
from proof.interop.java_processes import JavaBroker, JavaController
from proof.kit.our_processes import OurBroker, OurController, OurNameServer
from proof.kit.ports import reserve_port
from proof.kit.waiting import wait_until
from proof.kit.wire import SUCCESS, Wire

SYNC_STATE, EPOCHS = 1006, 1007
Kind = Literal["ours", "java"]


def state_of_set(controller: int) -> dict[str, Any]:
    """Request the state of broker-a's set from the controller at this port. Return {} if it has none."""
    with Wire(controller) as wire:
        answer = wire.ask(SYNC_STATE, body=b'["broker-a"]')
    if answer.code != SUCCESS:
        return {}
    found: dict[str, Any] = json.loads(answer.body)["replicasInfoTable"].get("broker-a", {})
    return found


class ControlledBrokers:
    """Brokers of one name, and what was acknowledged."""

    def __init__(self, home: Path, controller: OurController | JavaController, settings: dict[str, str]) -> None:
        self.home = home
        self.controller = controller
        self.settings = settings
        self.namesrv = OurNameServer(home / "namesrv")
        self.kinds: dict[int, Kind] = {}
        self.ports = [reserve_port(1, -2) for _ in range(3)]
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
        wait_until(lambda: number in self.in_sync(), f"{number} is in sync")

    def kill(self, number: int) -> None:
        """SIGKILL."""
        self.brokers.pop(number).kill()

    def state(self) -> dict[str, Any]:
        """The controller's state of the set."""
        return state_of_set(self.controller.port)

    def in_sync(self) -> set[int]:
        """The ids of the replicas in sync."""
        return {one["brokerId"] for one in self.state().get("inSyncReplicas", [])}

    def send(self, number: int, count: int) -> int:
        """Send messages to a broker, one after the other; how many it acknowledged."""
        return self.acknowledged.send(self.ports[number - 1], count)

    def leads(self, number: int) -> None:
        """Wait until a broker acknowledges."""
        wait_until(lambda: self.send(number, 1) == 1, f"{number} acknowledges")

    def complete(self, number: int) -> None:
        """Nothing that was acknowledged is missing at this broker."""
        at = {body: place for place, body in enumerate(bodies_at(self.ports[number - 1]))}
        assert [body for body in self.acknowledged.bodies if body not in at] == []
        places = [at[body] for body in self.acknowledged.bodies]
        assert places == sorted(places)

    def asked(self, number: int) -> dict[str, Any]:
        """What a broker says of its epochs, and where its log ends."""
        with Wire(self.ports[number - 1]) as wire:
            answer = wire.ask(EPOCHS)
        assert answer.code == SUCCESS, answer.remark
        found = parse_long(answer.body)
        assert isinstance(found, dict)
        return found

    def followed(self, slave: int, master: int) -> None:
        """The slave's log comes to be the master's, byte for byte, with its epochs and its queues."""

        def all_there() -> bool:
            return self.end(slave) == self.end(master)

        wait_until(all_there, f"{slave} has all of {master}")
        assert self.log(slave) == self.log(master)
        assert self.epochs(slave) == self.epochs(master)

    def end(self, number: int) -> int:
        """Where a log ends."""
        return int(self.asked(number)["maxOffset"])

    def epochs(self, number: int) -> list[tuple[int, int]]:
        """Each epoch with its start."""
        return [(one["epoch"], one["startOffset"]) for one in self.asked(number)["epochList"]]

    def log(self, number: int) -> bytes:
        """A log up to its end; after it RocketMQ leaves what it has cut off."""
        broker = self.brokers[number]
        files = sorted((broker.store / "commitlog").iterdir())
        return b"".join(path.read_bytes() for path in files)[: self.end(number)]

    def stop(self) -> None:
        """End all."""
        for broker in self.brokers.values():
            broker.kill()
        self.namesrv.kill()
        self.controller.kill()
