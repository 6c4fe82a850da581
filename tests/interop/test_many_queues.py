"""Pairs with 10,000 queues, both ways: a slave catches up from nothing and after a kill, has the topics and serves; and
it has what a SYNC_MASTER acknowledged before it was killed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bolide.remoting.json import parse_long
from proof.interop.java_processes import JavaBroker
from proof.interop.matrix import OUR_MASTER, OUR_SLAVE, marked
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.ports import reserve_port
from proof.kit.waiting import wait_until
from proof.kit.wire import PULL_MESSAGE, SEND_MESSAGE_V2, SUCCESS, Wire, pull_ext, send_ext
from proof.reader.frames import Frame
from proof.reader.records import read_records
from tests.interop.pairs import VERSIONS, Broker, HastySlave

pytestmark = pytest.mark.java

CREATE_TOPIC, ALL_TOPICS, MAX_OFFSET = 17, 21, 30
TOPICS = [f"Many{number}" for number in range(500)]
EACH, READ = 20, 21
"""Queues of a topic that have messages, and those that may be read: their number no slave can know from its log."""
QUEUES = [(topic, queue_id) for topic in TOPICS for queue_id in range(EACH)]
SAMPLE = QUEUES[::97]
SETTINGS = {"fastPortEnable": "true", "slaveReadEnable": "true", "mappedFileSizeConsumeQueue": "20000"}
"""With queue files of 6 MB, its default, a slave of 4.9 takes a minute and a half to make 10,000 of them."""
MASTER = {**SETTINGS, "brokerRole": "ASYNC_MASTER"}
SYNC = {**SETTINGS, "brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "slaveTimeout": "30000"}
SLAVE = {**SETTINGS, "brokerRole": "SLAVE", "brokerId": "1"}
SECONDS = 240
PROVEN = "a pair with 10,000 queues"
SYNC_PROVEN = "a pair with 10,000 queues and SYNC_MASTER"
Request = tuple[int, dict[str, str], bytes]
EACH_VERSION = pytest.mark.parametrize(
    "version", [pytest.param(version, marks=pytest.mark.xdist_group(f"many-queues-{version}")) for version in VERSIONS]
)
"""One after the other: each takes half a gigabyte of memory for its files."""
MEMORY = Path("/dev/shm")
ROOM = 1 << 30


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, if there is room: a disk takes up to a minute to remove 30,000 files and folders. What the
    processes said stays in `tmp_path`."""
    in_memory = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM
    with TemporaryDirectory(prefix="bolide-", dir=MEMORY if in_memory else None, ignore_cleanup_errors=True) as name:
        yield Path(name)
        for said in (*Path(name).glob("*/*.out"), *Path(name).glob("*/*.log")):
            shutil.copy(said, tmp_path / f"{said.parent.name}-{said.name}")


def ask_all(broker: Broker, requests: list[Request]) -> list[Frame]:
    with Wire(broker.port) as wire:
        return wire.ask_all(requests)


def done(broker: Broker, requests: list[Request]) -> None:
    """All of them succeed."""
    failed = [answer for answer in ask_all(broker, requests) if answer.code != SUCCESS]
    assert not failed, failed[0]


def create(broker: Broker) -> None:
    queues = {"readQueueNums": str(READ), "writeQueueNums": str(EACH), "perm": "6"}
    kind = {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    done(broker, [(CREATE_TOPIC, {"topic": topic, **queues, **kind}, b"") for topic in TOPICS])


def fill(broker: Broker, text: str) -> None:
    """A message more in each queue, which names it."""
    done(
        broker,
        [
            (SEND_MESSAGE_V2, send_ext(topic, e=str(queue_id)), f"{text} {topic} {queue_id}".encode())
            for topic, queue_id in QUEUES
        ],
    )


def takes(broker: Broker) -> bool:
    """Whether a message is acknowledged, to a topic of its own."""
    with Wire(broker.port) as wire:
        return wire.ask(SEND_MESSAGE_V2, send_ext("T"), b"first of all").code == SUCCESS


def ends(broker: Broker) -> list[str]:
    """Where each queue ends; "-1" where the broker does not know it."""
    asked = [(MAX_OFFSET, {"topic": topic, "queueId": str(queue_id)}, b"") for topic, queue_id in QUEUES]
    return [answer.ext.get("offset", "-1") for answer in ask_all(broker, asked)]


def topics(broker: Broker) -> dict[str, tuple[int, int, int]]:
    """The queues and permissions of the topics of this test."""
    with Wire(broker.port) as wire:
        answer = wire.ask(ALL_TOPICS, {})
    assert answer.code == SUCCESS
    table = parse_long(answer.body)["topicConfigTable"]
    return {
        name: (one["readQueueNums"], one["writeQueueNums"], one["perm"])
        for name, one in table.items()
        if name.startswith("Many")
    }


def becomes(ask: Callable[[Broker], object], broker: Broker, wanted: object) -> Callable[[], bool]:
    return lambda: ask(broker) == wanted


def assert_serves(broker: Broker, texts: list[str]) -> list[bytes]:
    """A pull finds what was sent; the records."""
    pulls = [(PULL_MESSAGE, pull_ext(topic, queue_id, 0), b"") for topic, queue_id in SAMPLE]
    bodies: list[bytes] = []
    for (topic, queue_id), answer in zip(SAMPLE, ask_all(broker, pulls), strict=True):
        assert answer.code == SUCCESS, (topic, queue_id, answer)
        found = read_records(answer.body)
        assert [record.body.decode() for record in found] == [f"{text} {topic} {queue_id}" for text in texts]
        assert [record.queue_offset for record in found] == list(range(len(texts)))
        bodies.append(answer.body)
    return bodies


def replicate(master: Broker, start: Callable[[], Broker]) -> None:
    """The slave begins with nothing, is killed, and restarts on what it has."""
    create(master)
    wanted = dict.fromkeys(TOPICS, (READ, EACH, 6))
    assert topics(master) == wanted
    texts: list[str] = []
    for text in ("first", "second"):
        fill(master, text)
        texts.append(text)
        filled = [str(len(texts))] * len(QUEUES)
        wait_until(becomes(ends, master, filled), "the master has dispatched all", SECONDS)
        slave = start()
        wait_until(becomes(topics, slave, wanted), "the slave has all topics", SECONDS)
        wait_until(becomes(ends, slave, filled), "the slave has all queues", SECONDS)
        assert assert_serves(slave, texts) == assert_serves(master, texts)
        slave.kill()
    master.kill()


def acknowledge(master: Broker, start: Callable[[], Broker]) -> None:
    """The master is killed at its last acknowledgement: the slave has the message of each queue."""
    create(master)
    slave = start()
    wait_until(becomes(topics, slave, dict.fromkeys(TOPICS, (READ, EACH, 6))), "the slave has all topics", SECONDS)
    wait_until(lambda: takes(master), "the slave follows", SECONDS)
    fill(master, "first")
    master.kill()
    wait_until(becomes(ends, slave, ["1"] * len(QUEUES)), "the slave has all queues", SECONDS)
    assert_serves(slave, ["first"])
    slave.kill()


@marked(OUR_MASTER, PROVEN)
@EACH_VERSION
def test_a_slave_of_java_has_the_queues_of_our_master(home: Path, version: str) -> None:
    namesrv = OurNameServer(home / "namesrv")
    port = reserve_port(1, -2)
    settings = {**MASTER, "haListenPort": str(port + 1)}
    master = OurBroker(home / "ours", namesrv.address, settings, port=port)
    replicate(master, lambda: HastySlave(home / "java", namesrv.address, SLAVE, version=version))
    assert namesrv.stop() == 0


@marked(OUR_SLAVE, PROVEN)
@EACH_VERSION
def test_our_slave_has_the_queues_of_a_master_of_java(home: Path, version: str) -> None:
    namesrv = OurNameServer(home / "namesrv")
    master = JavaBroker(home / "java", namesrv.address, MASTER, version=version)
    replicate(master, lambda: OurBroker(home / "ours", namesrv.address, SLAVE))
    assert namesrv.stop() == 0


@marked(OUR_MASTER, SYNC_PROVEN)
@EACH_VERSION
def test_a_slave_of_java_has_what_our_sync_master_acknowledged(home: Path, version: str) -> None:
    namesrv = OurNameServer(home / "namesrv")
    port = reserve_port(1, -2)
    master = OurBroker(home / "ours", namesrv.address, {**SYNC, "haListenPort": str(port + 1)}, port=port)
    acknowledge(master, lambda: HastySlave(home / "java", namesrv.address, SLAVE, version=version))
    assert namesrv.stop() == 0


@marked(OUR_SLAVE, SYNC_PROVEN)
@EACH_VERSION
def test_our_slave_has_what_a_sync_master_of_java_acknowledged(home: Path, version: str) -> None:
    namesrv = OurNameServer(home / "namesrv")
    master = JavaBroker(home / "java", namesrv.address, SYNC, version=version)
    acknowledge(master, lambda: OurBroker(home / "ours", namesrv.address, SLAVE))
    assert namesrv.stop() == 0
