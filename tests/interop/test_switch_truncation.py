"""Ours and Java's under a controller: a master is killed with a tail that nobody else has, the other is elected, and
the old one gives its tail up where the epochs of both logs part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bolide.remoting.json import parse_long
from tests.interop.acknowledged import Acknowledged, bodies_at
from tests.interop.controlled_set import SECONDS, ControlledBrokers, Kind
from tests.interop.matrix import OUR_MASTER, OUR_SLAVE, marked
from tests.interop.our_processes import OurController
from tests.interop.processes import until
from tests.interop.test_replication import FILE, Broker
from tests.interop.wire import SUCCESS, Wire

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.xdist_group("controlled-brokers")]

EPOCHS = 1007
SETTINGS = {"mappedFileSizeCommitLog": str(FILE), "maxMessageSize": "65536", "slaveReadEnable": "true"}
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
        self.followed(2, 1)

    def part(self) -> None:
        """The master takes what its slave never gets, and is killed. The controller is away meanwhile, and does not
        hear that the slave is out of sync: so the slave is elected."""
        of = self.of
        of.controller.kill()
        of.kill(2)
        assert self.tail.send(of.ports[0], TAIL) == TAIL
        of.kill(1)
        of.controller = OurController(self.controller_home, port=of.controller.port)

    def asked(self, number: int) -> dict[str, Any]:
        """What a broker says of its epochs, and where its log ends."""
        with Wire(self.of.ports[number - 1]) as wire:
            answer = wire.ask(EPOCHS)
        assert answer.code == SUCCESS, answer.remark
        found = parse_long(answer.body)
        assert isinstance(found, dict)
        return found

    def followed(self, slave: int, master: int) -> None:
        """The slave's log comes to be the master's, byte for byte, with its epochs and its queues."""

        def all_there() -> bool:
            return self.end(slave) == self.end(master)

        until(all_there, SECONDS, f"{slave} has all of {master}")
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
        broker: Broker = self.of.brokers[number]
        files = sorted((broker.store / "commitlog").iterdir())
        return b"".join(path.read_bytes() for path in files)[: self.end(number)]


def truncated(home: Path, first: Kind) -> None:
    """The first master's tail is gone when it returns, and what the second acknowledged is there."""
    parted = Parted(home, first)
    of = parted.of
    try:
        parted.begin()
        common = parted.end(1)
        parted.part()
        of.start(2)
        of.leads(2)
        assert parted.epochs(2)[-1][1] == common
        assert of.send(2, 5) == 5
        of.start(1)
        parted.followed(1, 2)
        assert of.send(2, TAIL) == TAIL
        parted.followed(1, 2)
        of.complete(2)
        until(lambda: bodies_at(of.ports[0]) == bodies_at(of.ports[1]), SECONDS, "both serve the same")
        assert not set(parted.tail.bodies) & set(bodies_at(of.ports[0]))
    finally:
        of.stop()


@marked(OUR_MASTER, "truncation to where the epochs part")
@pytest.mark.parametrize("version", ["5.5.0"])
def test_java_gives_its_tail_up_under_our_master(tmp_path: Path, version: str) -> None:
    truncated(tmp_path, "java")


@marked(OUR_SLAVE, "truncation to where the epochs part")
@pytest.mark.parametrize("version", ["5.5.0"])
def test_ours_gives_its_tail_up_under_a_master_of_java(tmp_path: Path, version: str) -> None:
    truncated(tmp_path, "ours")
