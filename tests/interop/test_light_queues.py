"""Light queues (LMQ) with RocketMQ's own programs: its clients send and pull them here, and a store with them moves."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from proof.interop.java_artefacts import BROKER_VERSION, CLIENT_VERSIONS, OLD_BROKER_VERSION
from proof.interop.java_processes import JavaBroker, JavaClient
from proof.interop.matrix import STORE_BACK, STORE_OUT, TO_OURS, marked
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.small import ROLLING, by_key
from proof.kit.waiting import wait_until
from proof.kit.wire import PULL_MESSAGE, SEND_MESSAGE_V2, SUCCESS, Wire, pull_ext, send_ext
from proof.reader.records import read_records

pytestmark = pytest.mark.java

UPDATE_CONSUMER_OFFSET = 15
QUERY_CONSUMER_OFFSET = 14
GET_MAX_OFFSET = 30
ON = {"enableLmq": "true", "enableMultiDispatch": "true"}
SETTINGS = ON | {
    **by_key(ROLLING),
    "timerWheelEnable": "false",
    "flushDiskType": "ASYNC_FLUSH",
}
COUNT = 120
GROUPS = ("wire_consumer", "%LMQ%wire")


def queues_of(number: int) -> list[str]:
    """Who gets the message of this number."""
    return ["%LMQ%all", f"%LMQ%{number % 3}"]


def send_some(port: int, first: int) -> None:
    with Wire(port) as wire:
        for number in range(first, first + COUNT):
            properties = f"KEYS\x01key{number}\x02INNER_MULTI_DISPATCH\x01{','.join(queues_of(number))}\x02"
            ext = send_ext("Parent", e=str(number % 4), i=properties)
            assert wire.ask(SEND_MESSAGE_V2, ext, b"%d" % number * 30).code == SUCCESS


def check_served(broker: OurBroker | JavaBroker, count: int) -> None:
    """Every light queue holds its messages in their order, each with its place among its properties.

    Ours answers a send once its queues have the message; Java's queues get it some time after the answer.
    """
    expected = {
        name: [number for number in range(count) if name in queues_of(number)]
        for name in ("%LMQ%all", "%LMQ%0", "%LMQ%1", "%LMQ%2")
    }
    ends = {name: len(numbers) for name, numbers in expected.items()}
    with Wire(broker.port) as wire:
        if isinstance(broker, JavaBroker):
            wait_until(lambda: ends_of(wire, ends) == ends, f"the light queues end at {ends}")
        assert ends_of(wire, ends) == ends
        for name, numbers in expected.items():
            found: list[int] = []
            offset = 0
            while (answer := wire.ask(PULL_MESSAGE, pull_ext(name, 0, offset))).code == SUCCESS:
                for message in read_records(answer.body):
                    places = message.properties["INNER_MULTI_QUEUE_OFFSET"].split(",")
                    names = message.properties["INNER_MULTI_DISPATCH"].split(",")
                    assert (message.topic, places[names.index(name)]) == ("Parent", str(len(found)))
                    found.append(int(message.properties["KEYS"][3:]))
                offset = int(answer.ext["nextBeginOffset"])
            assert found == numbers, name


def ends_of(wire: Wire, names: Iterable[str]) -> dict[str, int]:
    """Where the light queues end, as the broker says."""
    return {name: int(wire.ask(GET_MAX_OFFSET, {"topic": name, "queueId": "0"}).ext["offset"]) for name in names}


def commit(port: int, offset: int) -> None:
    with Wire(port) as wire:
        for group in GROUPS:
            ext = {"consumerGroup": group, "topic": "%LMQ%all", "queueId": "0", "commitOffset": str(offset)}
            assert wire.ask(UPDATE_CONSUMER_OFFSET, ext).code == SUCCESS


def committed(port: int) -> list[str]:
    with Wire(port) as wire:
        asked = [{"consumerGroup": group, "topic": "%LMQ%all", "queueId": "0"} for group in GROUPS]
        return [wire.ask(QUERY_CONSUMER_OFFSET, ext).ext["offset"] for ext in asked]


@marked(STORE_OUT, "light queues (LMQ)")
@marked(STORE_BACK, "light queues (LMQ)")
@pytest.mark.parametrize(
    ("version", "end"),
    [(BROKER_VERSION, "clean stop"), (OLD_BROKER_VERSION, "clean stop"), (BROKER_VERSION, "SIGKILL")],
)
def test_a_store_with_light_queues_moves_there_and_back(tmp_path: Path, version: str, end: str) -> None:
    ours_only = {"storeVersion": version[:3]}

    ours = OurBroker(tmp_path, "", SETTINGS | ours_only)
    send_some(ours.port, 0)
    check_served(ours, COUNT)
    commit(ours.port, 7)
    leave(ours, end)

    java = JavaBroker(tmp_path, "", SETTINGS, version=version)
    if end == "clean stop":
        assert committed(java.port) == ["7", "7"]
    check_served(java, COUNT)
    send_some(java.port, COUNT)
    check_served(java, 2 * COUNT)
    commit(java.port, 9)
    leave(java, end)

    ours = OurBroker(tmp_path, "", SETTINGS | ours_only)
    if end == "clean stop":
        assert committed(ours.port) == ["9", "9"]
    check_served(ours, 2 * COUNT)
    send_some(ours.port, 2 * COUNT)
    check_served(ours, 3 * COUNT)
    leave(ours, "clean stop")


@marked(TO_OURS, "light queues (LMQ)")
@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_java_clients_send_to_light_queues_and_pull_them(tmp_path: Path, version: str) -> None:
    namesrv = OurNameServer(tmp_path / "namesrv")
    broker = OurBroker(tmp_path / "broker", namesrv.address, SETTINGS)
    java = JavaClient(tmp_path / "java", namesrv.address, version)
    java.call("send", topic="Parent", mode="sync", count=40, light="%LMQ%a,%LMQ%b")
    java.call("send", topic="Parent", mode="async", count=10, light="%LMQ%b")
    sent = [f"sync-{number} 正文 🚀" for number in range(40)]
    for group in ("plain", "%LMQ%light"):
        assert java.call("light", parent="Parent", queue="%LMQ%a", group=group) == sent
        found = java.call("light", parent="Parent", queue="%LMQ%b", group=group)
        assert found[:40] == sent
        assert sorted(found[40:]) == sorted(f"async-{number} 正文 🚀" for number in range(10))
        # The group's offset is kept: nothing comes twice.
        assert java.call("light", parent="Parent", queue="%LMQ%b", group=group) == []
    java.close()
    assert broker.stop() == 0, broker.output()
    assert namesrv.stop() == 0, namesrv.output()


def leave(broker: OurBroker | JavaBroker, end: str) -> None:
    """Stop a broker, or kill it: what was acknowledged is in the page cache and must survive that."""
    if end == "SIGKILL":
        broker.kill()
    else:
        broker.stop()
