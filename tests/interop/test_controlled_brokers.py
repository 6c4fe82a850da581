"""Sets of real brokers under a controller, killed: ours alone, ours with Java's 5.5.0, ours under Java's controller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.controlled_set import SECONDS, ControlledBrokers
from tests.interop.java_processes import JavaController
from tests.interop.our_processes import OurController
from tests.interop.processes import until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("controlled-brokers")]


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
