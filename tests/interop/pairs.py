"""Masters and slaves in plain mode: their settings, their messages, and their logs, byte by byte."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from proof.attack.fault_shim import Page
from proof.interop.java_artefacts import BROKER_VERSION, OLD_BROKER_VERSION
from proof.interop.java_processes import JavaBroker
from proof.kit.our_processes import OurBroker
from proof.kit.wire import SEND_MESSAGE_V2, Wire, send_ext

FILE = 1 << 20
SMALL = {"mappedFileSizeCommitLog": str(FILE), "maxMessageSize": "65536"}
SLAVE = {**SMALL, "brokerRole": "SLAVE", "brokerId": "1"}
VERSIONS = [BROKER_VERSION, OLD_BROKER_VERSION]
Broker = JavaBroker | OurBroker


class HastySlave(JavaBroker):
    """A Java slave that asks for its master's tables within ten seconds.

    One of 5.5.0 asks for them once a minute of its wall clock, so its wall clock is set forward.
    """

    def __init__(self, home: Path, namesrv: str, settings: Mapping[str, str], *, version: str) -> None:
        self._page = Page(home.with_suffix(".page"), seed=0)
        super().__init__(
            home, namesrv, settings, version=version, environment=self._page.environment(home / "no such folder")
        )
        self.ask()

    def ask(self) -> None:
        """Let it ask within the next seconds."""
        self._page.clock(self._page.clock_ahead + 61)


def java_slave(home: Path, master: Broker, namesrv: str, version: str) -> JavaBroker:
    """Start a Java slave of a master whose replication port is the next one.

    The first start finds the master by the name server. A later one of 4.9 is told, because it would find the master
    five seconds after its start; 5.5.0 forgets what it is told.
    """
    is_told = home.exists() and version == OLD_BROKER_VERSION
    told = {"haMasterAddress": f"127.0.0.1:{master.port + 1}"} if is_told else {}
    return JavaBroker(home, namesrv, {**SLAVE, **told}, version=version)


def sent(broker: Broker, count: int) -> set[int]:
    """Send messages of 48 KiB one after the other; the codes of the answers."""
    with Wire(broker.port) as wire:
        return {wire.ask(SEND_MESSAGE_V2, send_ext("T"), bytes(48 * 1024)).code for _ in range(count)}


def files_of(broker: Broker) -> dict[str, bytes]:
    """The files of a log that hold something."""
    found = {path.name: path.read_bytes() for path in sorted((broker.store / "commitlog").iterdir())}
    return {name: data for name, data in found.items() if data.strip(b"\0")}


def assert_equal(master: Broker, slave: Broker) -> None:
    """The newest record of the master was acknowledged by the slave: what the slave has is byte for byte the same."""
    theirs, ours = files_of(master), files_of(slave)
    assert ours
    assert list(ours) == list(theirs)[-len(ours) :]
    for name, data in ours.items():
        assert data == theirs[name], name
