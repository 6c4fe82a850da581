"""A set of real brokers under a controller, ours or Java's, for tests and for the bench."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from tests.interop.java_processes import JavaBroker, JavaController
from tests.interop.our_processes import OurBroker, OurController, OurNameServer
from tests.interop.processes import free_ports, until
from tests.interop.records import stored
from tests.interop.wire import PULL_MESSAGE, SEND_MESSAGE_V2, SUCCESS, Wire, pull_ext, send_ext

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
