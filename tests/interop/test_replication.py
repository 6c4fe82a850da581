"""Replication in plain mode, both ways: Java's slaves of our master, and our slave of Java's masters."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from proof.interop.java_processes import JavaBroker, MqAdmin
from proof.interop.matrix import OUR_MASTER, OUR_SLAVE, marked
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.waiting import wait_until
from proof.kit.wire import SUCCESS, Wire
from tests.interop.pairs import SLAVE, SMALL, VERSIONS, Broker, assert_equal, files_of, java_slave, sent

pytestmark = pytest.mark.java

LONELY = {11, 12}
"""What a master answers without a slave: SLAVE_NOT_AVAILABLE by 4.9, FLUSH_SLAVE_TIMEOUT."""
MASTER = {**SMALL, "brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "slaveTimeout": "300"}
LOST = 100 << 10
"""The end that a slave loses: two records, and a part of a third."""
UNSYNCED = {"flushDiskType": "ASYNC_FLUSH", "flushIntervalCommitLog": "3600000", "flushIntervalConsumeQueue": "3600000"}
"""Settings of our slave. Its other files do not record the end of its log, which it loses, on a slow machine either."""
RUNTIME_INFO = 28
PROVEN = (
    "catch-up from nothing",
    "catch-up from the middle of a file",
    "catch-up after truncation",
    "SYNC_MASTER acknowledges what the slave has",
)


COUNTED = ("putMessageTimesTotal", "putMessageSizeTotal")
"""Counters that a slave of every release increments. msgPutTotalTodayNow of 5.5.0 is 0 on a slave."""


def counted(broker: Broker) -> dict[str, str]:
    """The runtime info of a broker."""
    with Wire(broker.port) as wire:
        return dict(json.loads(wire.ask(RUNTIME_INFO).body)["table"])


def acknowledged(broker: Broker) -> Callable[[], bool]:
    return lambda: sent(broker, 1) == {SUCCESS}


def cut(slave: Broker) -> None:
    """Take the end of a log away in the middle of a record, as a loss of power does with bytes that were not synced."""
    name, data = list(files_of(slave).items())[-1]
    end = len(data.rstrip(b"\0"))
    with (slave.store / "commitlog" / name).open("r+b") as log:
        log.seek(max(0, end - LOST))
        log.write(bytes(end - log.tell()))


def replicate(master: Broker, start: Callable[[], Broker]) -> None:
    """A slave begins with nothing, is killed, and catches up from the middle of a file and over the next ones; and
    once more after it has lost the end of its log."""
    assert sent(master, 2) <= LONELY
    slave = start()
    for count, loses in ((30, False), (25, True)):
        wait_until(acknowledged(master), "the slave holds what is sent")
        assert sent(master, count) <= {SUCCESS, *LONELY}, "a slow machine may take longer than slaveTimeout"
        wait_until(acknowledged(master), "the slave holds the last one")
        assert_equal(master, slave)
        slave.kill()
        assert sent(master, 1) <= LONELY
        if loses:
            cut(slave)
        slave = start()
    wait_until(acknowledged(master), "the slave has caught up")
    assert_equal(master, slave)
    assert len(files_of(slave)) >= 3
    slave.kill()
    master.kill()


@marked(OUR_MASTER, *PROVEN)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_slave_of_java_follows_our_master(tmp_path: Path, version: str) -> None:
    namesrv = OurNameServer(tmp_path / "namesrv")
    master = OurBroker(tmp_path / "ours", namesrv.address, MASTER)
    replicate(master, lambda: java_slave(tmp_path / "java", master, namesrv.address, version))
    assert namesrv.stop() == 0


@marked(OUR_SLAVE, *PROVEN)
@pytest.mark.parametrize("version", VERSIONS)
def test_our_slave_follows_a_master_of_java(tmp_path: Path, version: str) -> None:
    master = JavaBroker(tmp_path / "java", "", MASTER, version=version)

    def start() -> Broker:
        told = {"haMasterAddress": f"127.0.0.1:{master.port + 1}"}
        return OurBroker(tmp_path / "ours", "", {**SLAVE, **UNSYNCED, **told})

    replicate(master, start)


class Listed(NamedTuple):
    """The figures of a broker in `mqadmin clusterList` and `clusterList -m`."""

    puts_per_second: float
    puts_today: int


def listed(mqadmin: MqAdmin) -> dict[str, Listed]:
    """The figures of both brokers, by broker id."""
    rows = [line.split() for line in mqadmin.run("clusterList").splitlines() if line.startswith("DefaultCluster")]
    more = mqadmin.run("clusterList", "-m").splitlines()
    totals = [line.split() for line in more if line.startswith("DefaultCluster")]
    return {
        row[2]: Listed(float(row[5].partition("(")[0]), int(total[4])) for row, total in zip(rows, totals, strict=True)
    }


IN_THE_MATRIX = {"feature": "clusterList shows what a slave copies", "version": VERSIONS[0]}


@pytest.mark.parametrize(
    "ours",
    [
        pytest.param(("slave",), id="our-slave", marks=pytest.mark.matrix(direction=OUR_SLAVE, **IN_THE_MATRIX)),
        pytest.param(("master",), id="our-master", marks=pytest.mark.matrix(direction=OUR_MASTER, **IN_THE_MATRIX)),
        pytest.param(("master", "slave"), id="ours"),
        pytest.param((), id="java"),
    ],
)
def test_slave_counts_copied_messages(tmp_path: Path, ours: tuple[str, ...]) -> None:
    """`clusterList` shows the counters of a slave. In a pair of Java brokers, it shows the same rate."""
    namesrv = OurNameServer(tmp_path / "namesrv")
    make: dict[bool, type[OurBroker | JavaBroker]] = {True: OurBroker, False: JavaBroker}
    master = make["master" in ours](tmp_path / "master", namesrv.address, MASTER)
    told = {"haMasterAddress": f"127.0.0.1:{master.port + 1}"} if "slave" in ours else {}
    follower = make["slave" in ours](tmp_path / "slave", namesrv.address, {**SLAVE, **told})
    mqadmin = MqAdmin(tmp_path / "mqadmin", namesrv.address)
    wait_until(acknowledged(master), "the slave holds what is sent")

    def same() -> bool:
        of, to = (counted(broker) for broker in (master, follower))
        return int(of[COUNTED[0]]) >= 1 and all(to[key] == of[key] for key in COUNTED)

    wait_until(same, "the slave has counted what the master stored")
    wait_until(lambda: any(float(rate) for rate in counted(follower)["putTps"].split()), "a rate")
    wait_until(lambda: listed(mqadmin)["1"].puts_per_second > 0, "clusterList shows the rate")
    shown = listed(mqadmin)
    assert shown["0"].puts_today > 0
    assert shown["1"].puts_today == (shown["0"].puts_today if "slave" in ours else 0), "5.5.0 counts no copies here"
    mqadmin.close()
    follower.kill()
    master.kill()
    assert namesrv.stop() == 0
