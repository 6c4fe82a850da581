"""Pairs of our broker and Java's in plain mode whose roles are exchanged by configuration, or which restart one by one
while messages are sent: what was acknowledged is there, and both logs are equal."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Literal

import pytest

from proof.interop.acknowledged import Acknowledged, bodies_at
from proof.interop.java_processes import JavaBroker
from proof.interop.matrix import OUR_MASTER, OUR_SLAVE, marked
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.ports import reserve_port
from proof.kit.waiting import wait_until
from tests.interop.pairs import SMALL, VERSIONS, Broker, assert_equal

pytestmark = pytest.mark.java

Kind = Literal["ours", "java"]
SETTINGS = {**SMALL, "fastPortEnable": "true"}
MASTER = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "slaveTimeout": "300"}
SLAVE = {"brokerRole": "SLAVE", "brokerId": "1"}
TRAFFIC = 50
"""As many more acknowledged messages before the next step."""


class Pair:
    """Our broker and Java's, one of them the master, and the bodies that were acknowledged."""

    def __init__(self, home: Path, version: str, master: Kind) -> None:
        self.home = home
        self.version = version
        self.names = OurNameServer(home / "names")
        self.ports: dict[Kind, int] = {kind: reserve_port(1, -2) for kind in ("ours", "java")}
        self.brokers: dict[Kind, Broker] = {}
        self.acknowledged = Acknowledged(2000)
        self.lead(master)

    def lead(self, master: Kind) -> None:
        """Start both, one as the master, and wait until the other has what is sent."""
        self.master: Kind = master
        self.slave: Kind = "java" if master == "ours" else "ours"
        self.start(self.master)
        self.start(self.slave)
        self.in_sync()

    def start(self, kind: Kind) -> None:
        """Start one in its role, on its own store and port."""
        port = self.ports[kind]
        role = MASTER if kind == self.master else SLAVE
        settings = {**SETTINGS, **role, "haListenPort": str(port + 1)}
        home, names = self.home / kind, self.names.address
        if kind == "ours":
            self.brokers[kind] = OurBroker(home, names, settings, port=port)
        else:
            self.brokers[kind] = JavaBroker(home, names, settings, port=port, version=self.version)

    def in_sync(self) -> None:
        """Wait until the slave has what is sent."""
        wait_until(lambda: self.send(1) == 1, f"{self.slave} follows {self.master}")

    def send(self, count: int) -> int:
        """How many of these messages the master acknowledged; it may end meanwhile."""
        return self.acknowledged.send(self.ports[self.master], count)

    def more(self) -> None:
        """Wait until traffic has had more messages acknowledged."""
        wanted = len(self.acknowledged.bodies) + TRAFFIC
        wait_until(lambda: len(self.acknowledged.bodies) >= wanted, f"{self.master} acknowledges {TRAFFIC} more")

    @contextmanager
    def traffic(self) -> Iterator[None]:
        """Messages are sent all the time."""
        end = Event()

        def run() -> None:
            while not end.is_set():
                self.send(10)
                end.wait(0.01)

        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(run)
            try:
                yield
            finally:
                end.set()
            running.result()

    def check(self) -> None:
        """What was acknowledged is there in its order, and the slave's log is the master's."""
        self.in_sync()
        acknowledged = set(self.acknowledged.bodies)
        found = bodies_at(self.ports[self.master])
        assert [body for body in found if body in acknowledged] == self.acknowledged.bodies
        assert_equal(self.brokers[self.master], self.brokers[self.slave])

    def kill(self) -> None:
        """End the brokers, the master first, so that the slave has all that it has."""
        for kind in (self.master, self.slave):
            if kind in self.brokers:
                self.brokers.pop(kind).kill()

    def close(self) -> None:
        """End all."""
        self.kill()
        self.names.kill()


def promoted(home: Path, version: str, *masters: Kind) -> None:
    """One master after the other, each over the log of the one before.

    Java's slave asks for its master's topics every ten seconds or more. One that is promoted before it was told of a
    topic does not know it, and our broker, which follows it then, must keep the topic's messages.
    """
    pair = Pair(home, version, masters[0])
    try:
        for promoted in masters[1:]:
            pair.send(100)
            pair.check()
            pair.kill()
            pair.lead(promoted)
        pair.send(100)
        pair.check()
    finally:
        pair.close()


@marked(OUR_SLAVE, "promotion by configuration: Java, ours, Java")
@marked(OUR_MASTER, "promotion by configuration: Java, ours, Java")
@pytest.mark.parametrize("version", VERSIONS)
def test_our_slave_is_promoted_over_javas_log_and_back(tmp_path: Path, version: str) -> None:
    promoted(tmp_path, version, "java", "ours", "java")


@marked(OUR_SLAVE, "promotion by configuration: ours, Java, ours")
@marked(OUR_MASTER, "promotion by configuration: ours, Java, ours")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_slave_of_java_is_promoted_over_our_log_and_back(tmp_path: Path, version: str) -> None:
    promoted(tmp_path, version, "ours", "java", "ours")


def restarted(home: Path, version: str, master: Kind) -> None:
    """The slave, then the master restart under traffic; each has to take part before the next one stops."""
    pair = Pair(home, version, master)
    try:
        with pair.traffic():
            for kind in (pair.slave, pair.master):
                pair.more()
                pair.brokers[kind].stop()
                pair.start(kind)
            pair.more()
        pair.check()
    finally:
        pair.close()


@marked(OUR_MASTER, "rolling restart under traffic")
@pytest.mark.parametrize("version", VERSIONS)
def test_our_master_and_its_slave_restart_under_traffic(tmp_path: Path, version: str) -> None:
    restarted(tmp_path, version, "ours")


@marked(OUR_SLAVE, "rolling restart under traffic")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_master_of_java_and_our_slave_restart_under_traffic(tmp_path: Path, version: str) -> None:
    restarted(tmp_path, version, "java")
