"""Java's brokers and name server 5.5.0 with our controller, and what `mqadmin` prints of it.

The lines are those that it prints of Java's controller after the same steps. Its electMaster fails there: Java writes
the ids in the answer without quotes, and its own reader refuses them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from proof.interop.controlled_set import state_of_set
from proof.interop.java_artefacts import BROKER_VERSION
from proof.interop.java_processes import JavaBroker, JavaNameServer, MqAdmin
from proof.interop.matrix import OUR_CONTROLLER, marked
from proof.kit.our_processes import OurController
from proof.kit.ports import reserve_port
from proof.kit.waiting import wait_until
from proof.kit.wire import SEND_MESSAGE_V2, SUCCESS, Wire, send_ext

pytestmark = [pytest.mark.java, pytest.mark.slow]


class Set:
    """Two brokers of one name."""

    def __init__(self, home: Path, controller: OurController) -> None:
        self.home = home
        self.controller = controller
        self.namesrv = JavaNameServer(home / "namesrv")
        self.ports = [reserve_port(1, -2), reserve_port(1, -2)]
        self.brokers: dict[int, JavaBroker] = {}
        for number in (1, 2):
            self.start(number)
            wait_until(lambda number=number: self.in_sync() == list(range(1, number + 1)), f"{number} in sync")

    def start(self, number: int) -> None:
        settings = {
            "enableControllerMode": "true",
            "controllerAddr": self.controller.address,
            "allAckInSyncStateSet": "true",
        }
        home, port = self.home / f"broker{number}", self.ports[number - 1]
        self.brokers[number] = JavaBroker(home, self.namesrv.address, settings, port=port)

    def state(self) -> dict[str, Any]:
        return state_of_set(self.controller.port)

    def in_sync(self) -> list[int]:
        return sorted(one["brokerId"] for one in self.state().get("inSyncReplicas", []))

    def master(self, number: int, epoch: int) -> Callable[[], bool]:
        def is_it() -> bool:
            now = self.state()
            return (now.get("masterBrokerId"), now.get("masterEpoch")) == (number, epoch)

        return is_it

    def sent(self, number: int) -> Callable[[], bool]:
        def accepted() -> bool:
            with Wire(self.ports[number - 1]) as wire:
                return wire.ask(SEND_MESSAGE_V2, send_ext("T"), b"body").code == SUCCESS

        return accepted

    def epochs(self, mqadmin: MqAdmin) -> list[list[str]]:
        """What getBrokerEpoch prints of each broker."""
        printed = mqadmin.run("getBrokerEpoch", "-n", self.namesrv.address, "-b", "broker-a")
        return [re.findall(r"Epoch: EpochEntry\{epoch=(\d+)", part) for part in printed.split("#clusterName")[1:]]


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[OurController]:
    server = OurController(tmp_path / "controller")
    yield server
    assert server.stop() == 0, server.output()


@marked(OUR_CONTROLLER, "a set of Java's is switched", "mqadmin", version=BROKER_VERSION)
def test_a_set_of_javas_brokers(controller: OurController, tmp_path: Path) -> None:
    two = Set(tmp_path, controller)
    assert two.master(1, 1)()
    wait_until(two.sent(1), "the first master takes messages")
    mqadmin = MqAdmin(tmp_path / "mqadmin", two.namesrv.address)

    two.brokers[1].kill()
    wait_until(two.master(2, 2), "the second broker is master")
    wait_until(two.sent(2), "the second master takes messages")
    two.start(1)
    wait_until(lambda: two.in_sync() == [1, 2], "the old master is in sync again")

    first, second = (f"127.0.0.1:{port}" for port in two.ports)
    at, of_set = ("-a", controller.address), ("-bn", "broker-a", "-c", "DefaultCluster")
    printed = mqadmin.run("electMaster", *at, *of_set, "-b", "1")
    assert f"#BrokerMasterAddr\t{first}\n#MasterEpoch\t3\n#SyncStateSetEpoch\t6\n" in printed
    assert two.master(1, 3)()
    wait_until(lambda: two.in_sync() == [1, 2], "the other one is in sync again")
    wait_until(two.sent(1), "the designated master takes messages")
    assert two.epochs(mqadmin) == [["1", "2", "3"], ["1", "2", "3"]]

    assert mqadmin.run("getControllerMetaData", *at).strip().splitlines() == [
        "#ControllerGroup\tbolide",
        "#ControllerLeaderId\tn0",
        f"#ControllerLeaderAddress\t{controller.address}",
        f"#Peer:\tn0:{controller.address}",
    ]
    replica = "InSyncReplica:\tReplicaIdentity{{brokerName='broker-a', brokerId={}, brokerAddress='{}', alive=true}}"
    assert [line for line in mqadmin.run("getSyncStateSet", *at, "-b", "broker-a").splitlines() if line] == [
        "#brokerName\tbroker-a",
        "#MasterBrokerId\t1",
        f"#MasterAddr\t{first}",
        "#MasterEpoch\t3",
        "#SyncStateSetEpoch\t7",
        "#SyncStateSetNums\t2",
        replica.format(1, first),
        replica.format(2, second),
    ]
    assert shown(mqadmin.run("getControllerConfig", *at))["enableElectUncleanMaster"] == "false"
    printed = mqadmin.run("updateControllerConfig", *at, "-k", "enableElectUncleanMaster", "-v", "true")
    assert f"update controller config success![{controller.address}]\nenableElectUncleanMaster : true" in printed
    assert shown(mqadmin.run("getControllerConfig", *at))["enableElectUncleanMaster"] == "true"

    two.brokers[2].kill()
    wait_until(lambda: two.in_sync() == [1], "who left is not in sync")
    assert "clear broker broker-a metadata from controller success!" in mqadmin.run(
        "cleanBrokerMetadata", *at, *of_set, "-b", "2"
    )
    assert two.state()["notInSyncReplicas"] == []
    with pytest.raises(AssertionError, match=r"CODE: 2009 .*broker-a,  1\] is still alive"):
        mqadmin.run("cleanBrokerMetadata", *at, *of_set, "-b", "1")
    two.brokers[1].kill()
    two.namesrv.kill()
    mqadmin.close()


def shown(printed: str) -> dict[str, str]:
    """Keys and values that `mqadmin` prints of settings."""
    return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in printed.splitlines())}
