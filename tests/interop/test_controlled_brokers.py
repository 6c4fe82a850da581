"""Sets of real brokers under a controller, ours or Java's 5.5.0, killed: ours alone, and ours with Java's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from proof.interop.controlled_set import ControlledBrokers, Kind
from proof.interop.java_artefacts import BROKER_VERSION
from proof.interop.java_processes import JavaController
from proof.interop.matrix import JAVA_CONTROLLER, OUR_CONTROLLER, OUR_MASTER, OUR_SLAVE, marked
from proof.kit.our_processes import OurController
from proof.kit.waiting import wait_until

pytestmark = pytest.mark.slow

ALL = {"allAckInSyncStateSet": "true"}


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
        wait_until(lambda: of.state().get("masterBrokerId") == 2, "the slave is elected")
        of.start(1)
        of.leads(2)
        assert of.send(2, 100) == 100
        of.complete(2)
        of.kill(2)
        wait_until(lambda: of.state().get("masterBrokerId") == 1, "the old master is elected")
        of.start(2)
        of.leads(1)
        of.complete(1)
    finally:
        of.stop()


def replaced(of: ControlledBrokers, first: Kind) -> None:
    """Of a Bolide broker and one of RocketMQ, each is killed as the master: the other one has what was acknowledged and
    takes more, and who returns comes to have all of it. Once both are in sync, what is acknowledged is at both."""
    try:
        of.start(1, first)
        of.leads(1)
        of.start(2, "java" if first == "ours" else "ours")
        for killed, elected in ((1, 2), (2, 1)):
            of.leads(killed)
            assert of.send(killed, 50) == 50
            of.kill(killed)
            of.leads(elected)
            assert of.state()["masterBrokerId"] == elected
            of.complete(elected)
            assert of.send(elected, 50) == 50
            of.start(killed)
            of.leads(elected)
            of.followed(killed, elected)
            of.complete(elected)
    finally:
        of.stop()


@pytest.mark.java
@marked(OUR_MASTER, "failover under our controller", version=BROKER_VERSION)
@marked(OUR_SLAVE, "failover under our controller", version=BROKER_VERSION)
@marked(OUR_CONTROLLER, "a mixed set is switched by killing either", version=BROKER_VERSION)
def test_ours_and_javas_replace_each_other(controller: OurController, tmp_path: Path) -> None:
    replaced(ControlledBrokers(tmp_path, controller, ALL), "ours")


@pytest.mark.java
@marked(OUR_MASTER, "failover under Java's controller", version=BROKER_VERSION)
@marked(OUR_SLAVE, "failover under Java's controller", version=BROKER_VERSION)
@marked(JAVA_CONTROLLER, "a mixed set is switched by killing either", version=BROKER_VERSION)
@pytest.mark.parametrize("first", ["java", "ours"])
def test_ours_and_javas_replace_each_other_under_javas_controller(tmp_path: Path, first: Kind) -> None:
    replaced(ControlledBrokers(tmp_path, JavaController(tmp_path / "controller"), ALL), first)


@pytest.mark.java
@marked(JAVA_CONTROLLER, "a set of Bolide brokers is switched", version=BROKER_VERSION)
def test_ours_fail_over_under_javas_controller(tmp_path: Path) -> None:
    of = ControlledBrokers(tmp_path, JavaController(tmp_path / "controller"), ALL)
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
