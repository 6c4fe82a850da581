"""Masters and slaves in plain mode: their settings, their messages, and their logs, byte by byte."""

from __future__ import annotations

from proof.interop.java_artefacts import BROKER_VERSION, OLD_BROKER_VERSION
from proof.interop.java_processes import JavaBroker
from proof.kit.our_processes import OurBroker
from proof.kit.wire import SEND_MESSAGE_V2, Wire, send_ext

FILE = 1 << 20
SMALL = {"mappedFileSizeCommitLog": str(FILE), "maxMessageSize": "65536"}
SLAVE = {**SMALL, "brokerRole": "SLAVE", "brokerId": "1"}
VERSIONS = [BROKER_VERSION, OLD_BROKER_VERSION]
Broker = JavaBroker | OurBroker


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
