"""Ours and Java's under a controller: a master is killed with a tail that nobody else has, the other is elected, and
the old one gives its tail up where the epochs of both logs part."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.interop.acknowledged import Acknowledged, bodies_at
from proof.interop.controlled_set import ControlledBrokers, Kind
from proof.interop.matrix import OUR_MASTER, OUR_SLAVE, marked
from proof.kit.our_processes import OurController
from proof.kit.waiting import wait_until
from tests.interop.pairs import SMALL

pytestmark = [pytest.mark.java, pytest.mark.slow]

SETTINGS = {**SMALL, "slaveReadEnable": "true"}
BODY = 40 << 10
TAIL = 40
"""So many bodies are more than a file."""


class Parted:
    """A set of two, the first of them the master, whose logs part."""

    def __init__(self, home: Path, first: Kind) -> None:
        self.controller_home = home / "controller"
        self.of = ControlledBrokers(home, OurController(self.controller_home), SETTINGS)
        self.of.acknowledged = Acknowledged(BODY)
        self.tail = Acknowledged(BODY + 1)
        self.kinds: dict[int, Kind] = {1: first, 2: "java" if first == "ours" else "ours"}

    def begin(self) -> None:
        """Both have what was sent."""
        for number, kind in self.kinds.items():
            self.of.start(number, kind)
        self.of.leads(1)
        assert self.of.send(1, 20) == 20
        self.of.followed(2, 1)

    def part(self) -> None:
        """The master takes what its slave never gets, and is killed. The controller is away meanwhile, and does not
        hear that the slave is out of sync: so the slave is elected."""
        of = self.of
        of.controller.kill()
        of.kill(2)
        assert self.tail.send(of.ports[0], TAIL) == TAIL
        of.kill(1)
        of.controller = OurController(self.controller_home, port=of.controller.port)


def truncated(home: Path, first: Kind) -> None:
    """The first master's tail is gone when it returns, and what the second acknowledged is there."""
    parted = Parted(home, first)
    of = parted.of
    try:
        parted.begin()
        common = of.end(1)
        parted.part()
        of.start(2)
        of.leads(2)
        assert of.epochs(2)[-1][1] == common
        assert of.send(2, 5) == 5
        of.start(1)
        of.followed(1, 2)
        assert of.send(2, TAIL) == TAIL
        of.followed(1, 2)
        of.complete(2)
        wait_until(lambda: bodies_at(of.ports[0]) == bodies_at(of.ports[1]), "both serve the same")
        assert not set(parted.tail.bodies) & set(bodies_at(of.ports[0]))
    finally:
        of.stop()


@marked(OUR_MASTER, "truncation at the first differing epoch")
@pytest.mark.parametrize("version", ["5.5.0"])
def test_java_gives_its_tail_up_under_our_master(tmp_path: Path, version: str) -> None:
    truncated(tmp_path, "java")


@marked(OUR_SLAVE, "truncation at the first differing epoch")
@pytest.mark.parametrize("version", ["5.5.0"])
def test_ours_gives_its_tail_up_under_a_master_of_java(tmp_path: Path, version: str) -> None:
    truncated(tmp_path, "ours")
