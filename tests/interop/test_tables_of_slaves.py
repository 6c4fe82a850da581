"""Slaves have their master's tables: Java's slaves those of our master, ours those of Java's masters."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bolide.remoting.json import parse_long
from proof.interop.java_artefacts import BROKER_VERSION
from proof.interop.java_processes import JavaBroker
from proof.interop.matrix import OUR_MASTER, OUR_SLAVE, marked
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.waiting import wait_until
from proof.kit.wire import SEND_MESSAGE_V2, Wire, send_ext
from proof.reader.frames import Frame
from tests.interop.pairs import VERSIONS, HastySlave
from tests.node.routes.slaves import slave

pytestmark = pytest.mark.java

PROVEN = "tables of slaves"
MANY = 2_100
"""More than one page of 2000."""
CREATE_TOPIC, ALL_TOPICS, CREATE_TOPICS = 17, 21, 18
CREATE_GROUP, ALL_GROUPS = 200, 201
COMMIT, ALL_OFFSETS, ALL_DELAYS = 15, 43, 45
CLUSTER, SET_MODE, ALL_MODES, FIGURES, CHECKPOINT = 106, 401, 402, 61, 60
DELETE_TOPIC = 215


def ask(port: int, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Frame:
    with Wire(port) as wire:
        return wire.ask(code, ext or {}, body)


def done(answer: Frame) -> None:
    assert answer.code == 0, answer.remark


def loose(body: bytes) -> Any:
    """JSON with numbers as keys, as Java writes it."""
    return parse_long(body)


def topic_ext(name: str) -> dict[str, str]:
    fields = {"topic": name, "defaultTopic": "TBW102", "readQueueNums": "3", "writeQueueNums": "2", "perm": "6"}
    return {**fields, "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}


def fill(port: int) -> None:
    """A topic, a group, an offset of it, and a delayed message that was delivered."""
    done(ask(port, CREATE_TOPIC, topic_ext("HaT")))
    done(ask(port, CREATE_GROUP, {}, b'{"groupName":"newg","retryMaxTimes":3}'))
    for queue_id, offset in (("0", "0"), ("1", "0")):
        done(ask(port, SEND_MESSAGE_V2, send_ext("HaT", e=queue_id), offset.encode()))
    commit = {"consumerGroup": "newg", "topic": "HaT", "queueId": "1", "commitOffset": "1"}
    done(ask(port, COMMIT, commit))
    done(ask(port, SEND_MESSAGE_V2, send_ext("HaT", i="DELAY\x011\x02"), b"later"))
    wait_until(lambda: delays(port) == {"1": 1}, "the delayed message is delivered, and the table says so")


def delays(port: int) -> Any:
    return {str(level): offset for level, offset in loose(ask(port, ALL_DELAYS).body)["offsetTable"].items()}


def has_all(broker: JavaBroker) -> Callable[[], bool]:
    """Whether a slave has what `fill` made. One of 4.9 keeps the delays in their file alone until it is a master."""
    port = broker.port

    def there() -> bool:
        delayed = broker.store / "config" / "delayOffset.json"
        topics = loose(ask(port, ALL_TOPICS).body)["topicConfigTable"]
        groups = loose(ask(port, ALL_GROUPS).body)["subscriptionGroupTable"]
        offsets = loose(ask(port, ALL_OFFSETS).body)["offsetTable"].get("HaT@newg", {})
        return (
            topics.get("HaT", {}).get("readQueueNums") == 3
            and groups.get("newg", {}).get("retryMaxTimes") == 3
            and {str(queue_id): offset for queue_id, offset in offsets.items()} == {"1": 1}
            and delayed.exists()
            and {str(level): at for level, at in loose(delayed.read_bytes())["offsetTable"].items()} == {"1": 1}
        )

    return there


@marked(OUR_MASTER, PROVEN)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_slave_of_java_has_the_tables_of_our_master(tmp_path: Path, version: str) -> None:
    namesrv = OurNameServer(tmp_path / "namesrv")
    master = OurBroker(tmp_path / "ours", namesrv.address, {"fastPortEnable": "true"})
    fill(master.port)
    settings = {"brokerRole": "SLAVE", "brokerId": "1"}
    java = HastySlave(tmp_path / "java", namesrv.address, settings, version=version)

    def registered() -> Any:
        found = loose(ask(namesrv.port, CLUSTER).body)["brokerAddrTable"]["broker-a"]["brokerAddrs"]
        return {str(number): address for number, address in found.items()}

    both = {"0": master.address, "1": java.address}
    wait_until(lambda: registered() == both, "our name server has both under their numbers")
    wait_until(has_all(java), "the slave has asked for everything")
    done(ask(master.port, DELETE_TOPIC, {"topic": "HaT"}))
    java.ask()
    wait_until(
        lambda: "HaT" not in loose(ask(java.port, ALL_TOPICS).body)["topicConfigTable"],
        "the slave has heard that the topic is gone",
    )
    java.stop()
    wait_until(lambda: registered() == {"0": master.address}, "the slave has unregistered", 60)
    assert master.stop() == 0
    assert namesrv.stop() == 0


@marked(OUR_SLAVE, PROVEN)
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_slave_of_ours_has_the_tables_of_a_java_master(tmp_path: Path, version: str) -> None:
    java = JavaBroker(tmp_path / "java", "", version=version)
    fill(java.port)
    new = version == BROKER_VERSION
    if new:
        topics = [{"topicName": f"Many{number}", "attributes": {}} for number in range(MANY)]
        done(ask(java.port, CREATE_TOPICS, {}, json.dumps({"topicConfigList": topics}).encode()))
        mode = {"topic": "HaT", "consumerGroup": "newg", "mode": "POP", "popShareQueueNum": 2}
        done(ask(java.port, SET_MODE, {}, json.dumps(mode).encode()))
        done(ask(java.port, SEND_MESSAGE_V2, send_ext("HaT", i="TIMER_DELAY_SEC\x01600\x02"), b"much later"))
        wait_until(lambda: "HaT" in loose(ask(java.port, FIGURES).body)["timingCount"], "the timer has the message")
    async with slave(tmp_path / "ours", java.address) as follower:
        await follower.rounds()
        own = follower.parts
        told = loose(ask(java.port, ALL_TOPICS).body)
        missing = told["topicConfigTable"].keys() - own.topics.table.keys()
        assert missing == set()
        assert (own.topics.table["HaT"].read_queue_nums, own.topics.table["HaT"].write_queue_nums) == (3, 2)
        assert own.topics.data_version.to_json() == {"stateVersion": 0, **told["dataVersion"]}
        assert own.groups.table["newg"].retry_max_times == 3
        assert own.committed("newg", "HaT", 1) == 1
        assert json.loads(own.delay.encode())["offsetTable"] == {"1": 1}
        if new:
            assert f"Many{MANY - 1}" in own.topics.table
            modes = json.loads(own.assignments.encode())["messageRequestModeMap"]
            assert modes["HaT"]["newg"]["mode"] == "POP"
            assert json.loads(own.figures.encode())["timingCount"]["HaT"]["count"] == 1
        done(ask(java.port, DELETE_TOPIC, {"topic": "HaT"}))
        await follower.rounds(2)
        assert "HaT" not in own.topics.table
        assert own.dropped == ["HaT"]
    java.kill()
