"""Pairs whose master waits for nobody, both ways: its answers say nothing of the slave, whose own log is looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from proof.interop.java_processes import JavaBroker
from proof.interop.matrix import OUR_MASTER, OUR_SLAVE, marked
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.ports import reserve_port
from proof.kit.waiting import wait_until
from proof.kit.wire import SUCCESS
from tests.interop.pairs import FILE, SLAVE, SMALL, VERSIONS, Broker, assert_equal, files_of, java_slave, sent

pytestmark = pytest.mark.java

MASTER = {**SMALL, "brokerRole": "ASYNC_MASTER"}
PROVEN = (
    "ASYNC_MASTER: catch-up from nothing",
    "ASYNC_MASTER: catch-up from the middle of a file",
    "ASYNC_MASTER waits for no slave",
)


def end_of(broker: Broker) -> int:
    """Where a log ends."""
    name, data = list(files_of(broker).items())[-1] if files_of(broker) else ("0", b"")
    return int(name) + len(data.rstrip(b"\0"))


def followed(master: Broker, slave: Broker) -> None:
    """The slave comes to have all that the master has, byte for byte."""
    wait_until(lambda: end_of(slave) == end_of(master), "the slave has all")
    assert_equal(master, slave)


def more_than(broker: Broker, end: int) -> Callable[[], bool]:
    return lambda: end_of(broker) > end


def replicate(master: Broker, start: Callable[[], Broker]) -> None:
    """A slave begins with nothing, and is killed twice: with all of the log, and while it is sent more of it."""
    assert sent(master, 2) == {SUCCESS}, "nobody is there"
    slave = start()
    followed(master, slave)
    for whole in (True, False):
        before = end_of(slave)
        assert sent(master, 25) == {SUCCESS}
        if whole:
            followed(master, slave)
        else:
            wait_until(more_than(slave, before), "the slave gets more")
        slave.kill()
        kept = end_of(slave)
        assert kept % FILE
        assert sent(master, 25) == {SUCCESS}, "nobody is there"
        assert end_of(master) > kept + FILE
        slave = start()
        followed(master, slave)
    assert len(files_of(slave)) >= 3
    slave.kill()
    master.kill()


@marked(OUR_MASTER, *PROVEN)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_slave_of_java_follows_our_async_master(tmp_path: Path, version: str) -> None:
    namesrv = OurNameServer(tmp_path / "namesrv")
    port = reserve_port(1, -2)
    # an ASYNC_MASTER gives its log only where it is told to
    settings = {**MASTER, "haListenPort": str(port + 1)}
    master = OurBroker(tmp_path / "ours", namesrv.address, settings, port=port)
    replicate(master, lambda: java_slave(tmp_path / "java", master, namesrv.address, version))
    assert namesrv.stop() == 0


@marked(OUR_SLAVE, *PROVEN)
@pytest.mark.parametrize("version", VERSIONS)
def test_our_slave_follows_an_async_master_of_java(tmp_path: Path, version: str) -> None:
    master = JavaBroker(tmp_path / "java", "", MASTER, version=version)
    own = {**SLAVE, "haMasterAddress": f"127.0.0.1:{master.port + 1}"}
    replicate(master, lambda: OurBroker(tmp_path / "ours", "", own))
