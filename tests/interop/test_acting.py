"""Acting masters, ours and Java's in one set, before a name server of Java: a Java client locks queues and reads on at
the slave while the master is killed, and the master that returns knows how far it came."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proof.interop.java_artefacts import BROKER_VERSION
from proof.interop.java_processes import JavaBroker, JavaClient, JavaNameServer
from proof.interop.matrix import OF_OURS, OUR_MASTER, OUR_SLAVE, PROGRAM
from proof.kit.our_processes import OurBroker
from proof.kit.ports import reserve_port
from proof.kit.waiting import wait_until
from proof.kit.wire import GET_ROUTE, PULL_MESSAGE, SEND_MESSAGE_V2, SUCCESS, Wire, pull_ext, send_ext
from proof.reader.frames import frame, header

pytestmark = pytest.mark.java

UPDATE_TOPIC, QUERY_OFFSET, MAX_OFFSET, HEART_BEAT, END_TRANSACTION, CHECK_TRANSACTION = 17, 14, 30, 34, 37, 39
COMMIT = "8"
NAMES = {"supportActingMaster": "true", "notifyMinBrokerIdChanged": "true"}
ACTING = {"enableSlaveActingMaster": "true", "slaveReadEnable": "true", "fastPortEnable": "true"}
PATIENT = {"brokerNotActiveTimeoutMillis": "60000"}
"""The machine may stand still; who is killed loses its connections at once."""
HERE = {"brokerIP2": "127.0.0.1"}
"""Java compares the address from which a slave follows with the one that it registered."""
ONE_QUEUE = {"topic": "T", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
KIND = {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
IDS = {"master": 0, "slave": 1, "third": 2}
ESCAPE = "acting master: what is due goes to another set"


def cell(direction: str, feature: str) -> pytest.MarkDecorator:
    """A cell of the matrix."""
    return pytest.mark.matrix(feature=feature, version=BROKER_VERSION, direction=direction)


class Set:
    """A master, a slave, and perhaps a third one, each ours or Java's."""

    def __init__(
        self,
        home: Path,
        kinds: dict[str, type[JavaBroker] | type[OurBroker]],
        more: dict[str, str] | None = None,
    ) -> None:
        self.home = home
        self.more = more or {}
        self.kinds = kinds
        self.names = JavaNameServer(home / "names", settings=NAMES)
        self.ports = {name: reserve_port(1, -2) for name in kinds}
        self.running = {name: self.start(name) for name in kinds}
        self.master, self.slave = self.running["master"], self.running["slave"]

    def start(self, name: str) -> JavaBroker | OurBroker:
        port = self.ports[name]
        number = str(IDS[name])
        role = {"brokerRole": "SYNC_MASTER"} if name == "master" else {"brokerRole": "SLAVE", "brokerId": number}
        settings = {**ACTING, **PATIENT, **HERE, **role, "haListenPort": str(port + 1), **self.more}
        settings |= {"autoCreateTopicEnable": "true", "totalReplicas": str(len(self.kinds))}
        kind = self.kinds[name]
        return kind(self.home / name, self.names.address, settings, port=port)

    def shown(self) -> Any:
        """Address by id, and permissions, as a client is told."""
        with Wire(self.names.port) as wire:
            answer = wire.ask(GET_ROUTE, {"topic": "T", "acceptStandardJsonOnly": "true"})
        if answer.code != SUCCESS:
            return None
        route = json.loads(answer.body)
        of = [broker["brokerAddrs"] for broker in route["brokerDatas"] if broker["brokerName"] == "broker-a"]
        perms = {queue["perm"] for queue in route["queueDatas"] if queue["brokerName"] == "broker-a"}
        return of[0] if of else None, perms

    def shows(self, addresses: dict[str, str], perm: int) -> None:
        wait_until(lambda: self.shown() == (addresses, {perm}), f"clients are told {addresses} and {perm}")

    def both(self) -> None:
        self.shows({"0": self.master.address, "1": self.slave.address}, 6)


def send(port: int, first: int, count: int) -> None:
    with Wire(port) as wire:
        for number in range(first, first + count):
            assert wire.ask(SEND_MESSAGE_V2, send_ext("T", e="0"), b"%d" % number).code == SUCCESS


def holds(port: int, count: int) -> Callable[[], bool]:
    def asked() -> bool:
        with Wire(port) as wire:
            return wire.ask(PULL_MESSAGE, pull_ext("T", 0, count - 1)).code == SUCCESS

    return asked


def ends_at(port: int, count: int) -> Callable[[], bool]:
    """As `holds`, without a pull: 5.5.0's slave would note its offset, and its own master, when it returns, cannot read
    what such a slave answers to 43, whose numbers have no quotes."""

    def asked() -> bool:
        with Wire(port) as wire:
            return wire.ask(MAX_OFFSET, {"topic": "T", "queueId": "0"}).ext.get("offset") == str(count)

    return asked


def offset_of(port: int, group: str) -> str | None:
    with Wire(port) as wire:
        answer = wire.ask(QUERY_OFFSET, {"consumerGroup": group, "topic": "T", "queueId": "0"})
    return answer.ext.get("offset")


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(JavaBroker, id="java", marks=cell(OUR_SLAVE, "acting master")),
        pytest.param(OurBroker, id="ours", marks=cell(PROGRAM, "acting master before Java's name server")),
    ],
)
def test_our_slave_acts_for_a_master_that_is_killed(tmp_path: Path, of: type[JavaBroker] | type[OurBroker]) -> None:
    both = Set(tmp_path, {"master": of, "slave": OurBroker})
    with Wire(both.master.port) as wire:
        assert wire.ask(UPDATE_TOPIC, {**ONE_QUEUE, **KIND}).code == SUCCESS
    both.both()
    send(both.master.port, 0, 10)
    wait_until(holds(both.slave.port, 10), "the slave has all, and the topic")
    both.master.kill()
    both.shows({"0": both.slave.address}, 4)
    with Wire(both.slave.port) as wire:
        assert wire.ask(SEND_MESSAGE_V2, send_ext("T"), b"refused").code == 14
    client = JavaClient(tmp_path / "client", both.names.address, BROKER_VERSION)
    try:
        client.call("consume", group="g", topic="T", orderly="true")
        client.await_until("g", lambda got: len(got) >= 10, "what the slave has, in order")
        wait_until(lambda: offset_of(both.slave.port, "g") == "10", "the slave is told how far the group came")
        both.master = both.start("master")
        both.both()
        wait_until(lambda: offset_of(both.master.port, "g") == "10", "the master knows it, too")
        send(both.master.port, 10, 5)
        client.await_until("g", lambda got: len(got) >= 15, "what the master got after its return")
    finally:
        client.close()
    for process in (both.master, both.slave, both.names):
        process.kill()


@cell(OUR_MASTER, "acting master")
def test_our_master_registers_once_javas_slave_follows(tmp_path: Path) -> None:
    both = Set(tmp_path, {"master": OurBroker, "slave": JavaBroker})
    with Wire(both.master.port) as wire:
        assert wire.ask(UPDATE_TOPIC, {**ONE_QUEUE, **KIND}).code == SUCCESS
    both.both()
    send(both.master.port, 0, 10)
    both.master.kill()
    both.shows({"0": both.slave.address}, 4)
    both.master = both.start("master")
    both.both()
    send(both.master.port, 10, 1)
    for process in (both.master, both.slave, both.names):
        process.kill()


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(
            (OurBroker, JavaBroker, OurBroker), id="ours, java, ours", marks=cell(OUR_MASTER, "acting master of three")
        ),
        pytest.param(
            (JavaBroker, OurBroker, JavaBroker), id="java, ours, java", marks=cell(OUR_SLAVE, "acting master of three")
        ),
    ],
)
def test_smallest_running_id_of_three_acts(
    tmp_path: Path, kinds: tuple[type[JavaBroker] | type[OurBroker], ...]
) -> None:
    of = Set(tmp_path, dict(zip(IDS, kinds, strict=True)))
    running = of.running

    def shown(*names: str, perm: int) -> None:
        """These are known; without a master, the first of them is shown as the master."""
        ids = ["0", *(str(IDS[name]) for name in names[1:])]
        of.shows({number: running[name].address for number, name in zip(ids, names, strict=True)}, perm)

    with Wire(running["master"].port) as wire:
        assert wire.ask(UPDATE_TOPIC, {**ONE_QUEUE, **KIND}).code == SUCCESS
    shown("master", "slave", "third", perm=6)
    send(running["master"].port, 0, 10)
    for name in ("slave", "third"):
        wait_until(ends_at(running[name].port, 10), f"the {name} has all, and the topic")
    running["master"].kill()
    shown("slave", "third", perm=4)
    running["slave"].kill()
    shown("third", perm=4)
    running["slave"] = of.start("slave")
    shown("slave", "third", perm=4)
    running["master"] = of.start("master")
    shown("master", "slave", "third", perm=6)
    send(running["master"].port, 10, 5)
    for name in ("slave", "third"):
        wait_until(ends_at(running[name].port, 15), f"the {name} follows again")
    for process in (*running.values(), of.names):
        process.kill()


SOON = {"transactionCheckInterval": "1000", "transactionTimeOut": "1000"}
BACKGROUND = {
    b"level": {"i": "UNIQ_KEY\x01A\x02DELAY\x014\x02"},
    b"timer": {"i": "UNIQ_KEY\x01B\x02TIMER_DELAY_SEC\x0125\x02"},
    b"half": {"i": "UNIQ_KEY\x01C\x02TRAN_MSG\x01true\x02PGROUP\x01pg\x02", "f": "4", "a": "pg"},
}
"""What is due half a minute after it was sent, when the master is gone."""


def delivered(port: int, body: bytes) -> bool:
    with Wire(port) as wire:
        answer = wire.ask(PULL_MESSAGE, pull_ext("T", 0, 0))
    return answer.code == SUCCESS and body in answer.body


def commit_what_is_asked(port: int) -> None:
    """Be the producer of the half message at a broker, until it asks."""
    with Wire(port) as wire:
        beat = {"clientID": "pc", "producerDataSet": [{"groupName": "pg"}], "consumerDataSet": []}
        assert wire.ask(HEART_BEAT, {}, json.dumps(beat).encode()).code == SUCCESS
        question = wire.read()
        assert question is not None and question.code == CHECK_TRANSACTION
        ends = {"commitOrRollback": COMMIT, "fromTransactionCheck": "true", "producerGroup": "pg"}
        same = {
            name: question.ext[name] for name in ("tranStateTableOffset", "commitLogOffset", "msgId", "transactionId")
        }
        wire.deliver(frame(header(END_TRANSACTION, {**ends, **same}, opaque=77)))
        while (answer := wire.read()) is not None and answer.opaque != 77:
            assert answer.code == CHECK_TRANSACTION, "it may ask once more"
        assert answer is not None and answer.code == SUCCESS


@pytest.mark.parametrize(
    ("of", "other"),
    [
        pytest.param(JavaBroker, OurBroker, id="java, ours", marks=cell(OUR_SLAVE, ESCAPE)),
        pytest.param(OurBroker, JavaBroker, id="ours, java", marks=cell(OF_OURS, ESCAPE)),
    ],
)
def test_our_slave_sends_what_is_due_to_another_set(
    tmp_path: Path, of: type[JavaBroker] | type[OurBroker], other: type[JavaBroker] | type[OurBroker]
) -> None:
    both = Set(tmp_path, {"master": of, "slave": OurBroker}, {"enableRemoteEscape": "true", **SOON})
    name = {"brokerName": "broker-b", "autoCreateTopicEnable": "true", **SOON}
    elsewhere = other(tmp_path / "other", both.names.address, name)
    for port in (both.master.port, elsewhere.port):
        with Wire(port) as wire:
            assert wire.ask(UPDATE_TOPIC, {**ONE_QUEUE, **KIND}).code == SUCCESS
    both.both()
    with Wire(both.master.port) as wire:
        for body, fields in BACKGROUND.items():
            assert wire.ask(SEND_MESSAGE_V2, send_ext("T", **fields), body).code == SUCCESS
    send(both.master.port, 0, 1)
    wait_until(holds(both.slave.port, 1), "the slave has all, and the topic")
    both.master.kill()
    both.shows({"0": both.slave.address}, 4)
    commit_what_is_asked(elsewhere.port)
    for body in BACKGROUND:
        wait_until(lambda body=body: delivered(elsewhere.port, body), f"the other set delivers {body!r}")
    both.master = both.start("master")
    both.both()
    assert not delivered(both.master.port, b"level"), "the master knows that it was delivered"
    send(both.master.port, 1, 1)
    for process in (both.master, both.slave, elsewhere, both.names):
        process.kill()
