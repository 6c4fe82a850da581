"""A Java master and its slave before our name server and Java's: the same answers while the master comes and goes; and
what our client does meanwhile.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.client import Message, MessageQueue
from bolide.errors import BolideError
from proof.interop.java_processes import JavaBroker, JavaNameServer
from proof.kit.our_processes import OurNameServer
from proof.kit.ports import reserve_port
from proof.kit.waiting import PROCESS_PATIENCE, until, wait_until
from proof.kit.wire import GET_ROUTE, SUCCESS, Wire
from tests.client.patient import Admin, Producer, PushConsumer

pytestmark = pytest.mark.java

CLUSTER_INFO, MEMBERS = 106, 901
UPDATE_TOPIC, MAX_OFFSET = 17, 30
ACTING = {"supportActingMaster": "true", "notifyMinBrokerIdChanged": "true"}


class Pair:
    """Both name servers, and a set of two brokers that registers with both."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.ours = OurNameServer(home / "ours", ACTING)
        self.java = JavaNameServer(home / "java", settings=ACTING)
        self.namesrv = f"{self.ours.address};{self.java.address}"
        self.port = reserve_port(1, -2)
        self.master = self.start_master()
        self.slave = self._broker("slave", reserve_port(1, -2), {"brokerId": "1", "brokerRole": "SLAVE"})

    def start_master(self) -> JavaBroker:
        """The master, on its own store and port."""
        self.master = self._broker("master", self.port, {"brokerRole": "ASYNC_MASTER"})
        return self.master

    def _broker(self, name: str, port: int, settings: dict[str, str]) -> JavaBroker:
        acting = {"enableSlaveActingMaster": "true", "slaveReadEnable": "true", "autoCreateTopicEnable": "true"}
        return JavaBroker(self.home / name, self.namesrv, {**acting, **settings}, port=port)

    def answers(self) -> list[tuple[Any, Any, Any]]:
        """What each name server says of topic, cluster and set: ours first."""
        return [_said(server.port) for server in (self.ours, self.java)]

    def agree(self, *ids: str) -> None:
        """Wait until both name servers say the same, and list these ids."""

        def same() -> bool:
            ours, java = self.answers()
            return bool(ours == java and set(ours[2]["brokerMemberGroup"]["brokerAddrs"]) == set(ids))

        try:
            wait_until(same, f"both name servers say the same of {ids}")
        except AssertionError:
            ours, java = self.answers()
            assert ours == java
            raise

    def stop(self) -> None:
        """End all processes."""
        for process in (self.master, self.slave, self.java, self.ours):
            process.kill()


def _said(port: int) -> tuple[Any, Any, Any]:
    with Wire(port) as wire:
        route = wire.ask(GET_ROUTE, {"topic": "Pair", "acceptStandardJsonOnly": "true"})
        cluster = wire.ask(CLUSTER_INFO)
        members = wire.ask(MEMBERS, {"clusterName": "DefaultCluster", "brokerName": "broker-a"})
    return (
        _sorted(route.body) if route.code == SUCCESS else route.code,
        _sorted(cluster.body),
        _sorted(members.body),
    )


def _sorted(body: bytes) -> Any:
    """JSON as Java writes it, whose keys may be numbers without quotes."""
    text = body.decode()
    for number in "0123":
        for before in "{,":
            text = text.replace(f"{before}{number}:", f'{before}"{number}":')
    return json.loads(text)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    found = Pair(tmp_path)
    yield found
    found.stop()


async def test_a_set_whose_master_goes_and_returns(pair: Pair) -> None:
    fields = {"topic": "Pair", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
    for broker in (pair.master, pair.slave):  # the slave would learn of it a minute after its start
        with Wire(broker.port) as wire:
            kind = {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0"}
            assert wire.ask(UPDATE_TOPIC, {**fields, **kind}).code == SUCCESS
    pair.agree("0", "1")
    await _consume_through(pair)


async def _consume_through(pair: Pair) -> None:
    seen: list[bytes] = []

    def seen_all(count: int) -> bool:
        # some may come twice: a send whose answer was lost is repeated, and a group may resume a little earlier
        return set(seen) == {b"%d" % number for number in range(count)}

    namesrv = pair.ours.address
    push = PushConsumer("pair-group", namesrv, start_from="first")
    push.subscribe("Pair", "*", lambda message: seen.append(message.body))
    async with Producer("pair-producer", namesrv) as producer:
        await _send(producer, range(10))
        await asyncio.to_thread(wait_until, lambda: _end(pair.slave.port) == 10, "the slave has all")
        pair.master.kill()
        await asyncio.to_thread(pair.agree, "1")
        with pytest.raises(BolideError):
            await producer.send(Message("Pair", b"refused"))
        async with Admin(namesrv) as admin:
            assert await admin.end_offset(MessageQueue("Pair", "broker-a", 0)) == 10
            (one,) = await admin.messages_by_key("Pair", "key-7")
            assert one.body == b"7"
        async with push:  # begins, and gets all, at the slave
            await until(lambda: seen_all(10), "what the slave has", PROCESS_PATIENCE)
            await push.commit()
            await asyncio.to_thread(pair.start_master)
            await asyncio.to_thread(pair.agree, "0", "1")
            await _send(producer, range(10, 20))
            await until(lambda: seen_all(20), "what the master got after its return", PROCESS_PATIENCE)
    assert seen_all(20)


async def _send(producer: Producer, numbers: range) -> None:
    for number in numbers:
        end = asyncio.get_running_loop().time() + 60
        while True:
            try:
                await producer.send(Message("Pair", b"%d" % number, keys=f"key-{number}"))
                break
            except BolideError:
                if asyncio.get_running_loop().time() > end:
                    raise


def _end(port: int) -> int:
    """The end of the only queue at a broker, -1 while it does not know the topic."""
    with Wire(port) as wire:
        answer = wire.ask(MAX_OFFSET, {"topic": "Pair", "queueId": "0"})
    return int(answer.ext["offset"]) if answer.code == SUCCESS else -1
