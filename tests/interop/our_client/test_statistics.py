"""Compares statistics, metrics and errors of our broker with RocketMQ 4.9.7 and 5.5.0, after the same requests."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from proof.interop.java_artefacts import BROKER_VERSION
from proof.interop.java_processes import JavaBroker
from proof.interop.matrix import PROGRAM, marked
from proof.kit.our_processes import OurBroker
from proof.kit.ports import reserve_port
from proof.kit.waiting import PROCESS_PATIENCE, until
from proof.kit.wire import PULL_MESSAGE, SEND_MESSAGE_V2, SUCCESS, Wire, pull_ext, send_ext
from proof.reader.frames import Frame
from tests.interop.our_client.java_cluster import JavaCluster
from tests.interop.our_client.versions import each_version
from tests.node.metrics.scraping import Samples, scraped, value

pytestmark = pytest.mark.java

UPDATE_TOPIC, UPDATE_GROUP, COMMIT, OFFSET, HEARTBEAT, STATISTIC = 17, 200, 15, 14, 34, 315
SYSTEM_ERROR = 1
COUNT = 3


class Ours(OurBroker):
    """Our broker, alone, with its metrics."""

    def __init__(self, home: Path) -> None:
        self.metrics = reserve_port()
        super().__init__(home, "", {"metricsExporterType": "PROM", "metricsPromExporterPort": str(self.metrics)})


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ours]:
    broker = Ours(tmp_path_factory.mktemp("ours"))
    yield broker
    assert broker.stop() == 0, broker.output()


def ask(broker: JavaBroker | OurBroker, code: int, ext: dict[str, str], body: bytes = b"") -> Frame:
    with Wire(broker.port) as wire:
        return wire.ask(code, ext, body)


def filled(broker: JavaBroker | OurBroker, topic: str) -> None:
    """A topic with one queue and messages, and a group whose members are not notified of each other."""
    fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
    fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    group = json.dumps({"groupName": f"{topic}-group", "notifyConsumerIdsChangedEnable": False}).encode()
    for made in (ask(broker, UPDATE_TOPIC, fields), ask(broker, UPDATE_GROUP, {}, group)):
        assert made.code == SUCCESS, made.remark
    for _ in range(COUNT):
        assert ask(broker, SEND_MESSAGE_V2, send_ext(topic), b"x").code == SUCCESS


def pulled(broker: JavaBroker | OurBroker, topic: str, group: str) -> None:
    """A pull of all messages."""
    found = ask(broker, PULL_MESSAGE, pull_ext(topic, 0, 0, consumerGroup=group))
    assert (found.code, found.ext["nextBeginOffset"]) == (SUCCESS, str(COUNT)), found.remark


def commit(broker: JavaBroker | OurBroker, topic: str, group: str, offset: int) -> None:
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": str(offset)}
    assert ask(broker, COMMIT, fields).code == SUCCESS


@marked(PROGRAM, "statistics of pulls by request 315")
def test_statistics_of_pulls_have_the_keys_of_java(cluster: JavaCluster, topic: str, ours: Ours) -> None:
    group = f"{topic}-group"

    def exists(broker: JavaBroker | OurBroker, name: str, key: str) -> bool:
        answer = ask(broker, STATISTIC, {"statsName": name, "statsKey": key})
        if answer.code == SUCCESS:
            assert set(json.loads(answer.body)) == {"statsMinute", "statsHour", "statsDay"}
            return True
        assert (answer.code, answer.remark) == (SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
        return False

    keys = (f"0@{topic}@{group}", f"1@{topic}@{group}", f"{topic}@{group}", f"0@{topic}@other", topic)
    for broker in (cluster.broker, ours):
        filled(broker, topic)
        assert not any(exists(broker, "GROUP_GET_LATENCY", key) for key in keys)
        pulled(broker, topic, group)
    for name in ("GROUP_GET_LATENCY", "GROUP_GET_NUMS", "GROUP_GET_SIZE", "TOPIC_PUT_NUMS"):
        java, here = ([exists(broker, name, key) for key in keys] for broker in (cluster.broker, ours))
        assert here == java and sum(java) == 1, name
    for name in ("GROUP_GET_FALL_SIZE", "GROUP_GET_FALL_TIME"):  # in the log of Java only, with the key of the latency
        assert [exists(cluster.broker, name, key) for key in keys] == [False] * len(keys)
        assert [exists(ours, name, key) for key in keys] == [True] + [False] * (len(keys) - 1)


@marked(PROGRAM, "commits that go back are logged")
async def test_commit_that_goes_back_is_stored_and_logged(cluster: JavaCluster, topic: str, ours: Ours) -> None:
    group = f"{topic}-group"
    for broker in (cluster.broker, ours):
        filled(broker, topic)
        for offset in (1, 3, 2):
            commit(broker, topic, group, offset)
        fields = {"consumerGroup": group, "topic": topic, "queueId": "0"}
        assert ask(broker, OFFSET, fields).ext["offset"] == "2"

    def logged() -> list[str]:
        logs = [path.read_text(encoding="utf-8") for path in cluster.broker.home.glob("*.log")]
        return [
            line for log in logs for line in log.splitlines() if "[NOTIFYME]" in line and f"{topic}@{group}" in line
        ]

    await until(lambda: len(logged()) == 1, "Java logs the commit", PROCESS_PATIENCE)
    assert "requestOffset=2, storeOffset=3" in logged()[0]
    assert f"group {group} committed offset 2 of {topic}" in ours.output()
    assert value(await scraped(ours.metrics), "bolide_backward_commits_total", consumer_group=group) == 1


@marked(PROGRAM, "class filters")
def test_class_filter_is_rejected_and_java_delivers_every_message(cluster: JavaCluster, topic: str, ours: Ours) -> None:
    """Java's brokers leave class filters to filter servers, and deliver every message."""
    group = f"{topic}-group"
    subscription = {
        "topic": topic, "subString": "org.example.Filter", "expressionType": "TAG", "classFilterMode": True,
        "tagsSet": [], "codeSet": [], "subVersion": 1,
    }
    consumer = {
        "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "unitMode": False,
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [subscription],
    }
    body = json.dumps({"clientID": "c@1", "consumerDataSet": [consumer], "producerDataSet": []}).encode()
    by_class = {"sysFlag": "8", "subVersion": "1", "subscription": "", "consumerGroup": group}
    found: list[tuple[int, int]] = []
    for broker in (cluster.broker, ours):
        filled(broker, topic)
        with Wire(broker.port) as wire:
            beat = wire.ask(HEARTBEAT, {}, body)
            pull = wire.ask(PULL_MESSAGE, pull_ext(topic, 0, 0, **by_class))
        found.append((beat.code, pull.code))
        if broker is ours:
            assert "names a Java class as its filter" in beat.remark and beat.remark == pull.remark
        else:
            assert pull.ext["nextBeginOffset"] == str(COUNT), pull.remark
    assert found == [(SUCCESS, SUCCESS), (SYSTEM_ERROR, SYSTEM_ERROR)]


OF_THE_NEW: list[object] = [each for each in each_version("our-client") if each.values == (BROKER_VERSION,)]


@pytest.mark.parametrize("cluster", OF_THE_NEW, indirect=True)
@marked(PROGRAM, "lag in time as a metric")
async def test_lag_in_time_is_the_one_of_java(cluster: JavaCluster, topic: str, ours: Ours) -> None:
    group = f"{topic}-group"
    name = "rocketmq_consumer_lag_latency_milliseconds"
    labels: list[set[str]] = []
    for broker, port in ((cluster.broker, cluster.metrics), (ours, ours.metrics)):
        begun = time.time()
        filled(broker, topic)
        stored = time.time()
        pulled(broker, topic, group)
        commit(broker, topic, group, 1)
        seen: Samples = {}

        async def shown(seen: Samples = seen, port: int = port) -> bool:
            seen.clear()
            seen.update(await scraped(port))
            found = [age for has, age in seen.get(name, []) if has.get("consumer_group") == group and age > 0]
            return bool(found)

        deadline = time.monotonic() + PROCESS_PATIENCE
        asked = time.time()
        while not await shown():  # ours looks every ten seconds
            assert time.monotonic() < deadline, seen.get(name)
            await asyncio.sleep(0.2)
            asked = time.time()
        age = value(seen, name, consumer_group=group, topic=topic)
        assert (asked - stored) * 1000 - 1 <= age <= (time.time() - begun) * 1000 + 1
        assert value(seen, "rocketmq_consumer_lag_messages", consumer_group=group, topic=topic) == COUNT - 1
        labels += [set(has) for has, _ in seen[name] if has.get("consumer_group") == group]
    assert labels[0] - labels[1] == {"otel_scope_name"} and labels[1] <= labels[0]
