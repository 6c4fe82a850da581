"""RocketMQ's own `mqadmin` 5.5.0 against our name server and broker."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from proof.interop.java_artefacts import BROKER_VERSION
from proof.interop.java_processes import JavaClient, MqAdmin
from proof.interop.matrix import PROGRAM
from proof.kit.our_processes import OurBroker, OurNameServer

pytestmark = [
    pytest.mark.java,
    pytest.mark.xdist_group("mqadmin"),
    pytest.mark.matrix(feature="mqadmin", version=BROKER_VERSION, direction=PROGRAM),
]

TOPIC = "mqadmin_topic"
GROUP = "mqadmin_group"
COUNT = 6


@pytest.fixture(scope="module")
def mqadmin(namesrv: OurNameServer, broker: OurBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqAdmin]:
    admin = MqAdmin(tmp_path_factory.mktemp("mqadmin"), namesrv.address)
    yield admin
    admin.close()


@pytest.fixture(scope="module")
def sent(
    namesrv: OurNameServer, broker: OurBroker, mqadmin: MqAdmin, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """Messages sent to a topic of three queues and consumed by a group."""
    printed = mqadmin.run("updateTopic", "-c", "DefaultCluster", "-t", TOPIC, "-r", "3", "-w", "3")
    assert f"create topic to {broker.address} success" in printed
    client = JavaClient(tmp_path_factory.mktemp("client"), namesrv.address, BROKER_VERSION)
    results: list[dict[str, Any]] = client.call("send", topic=TOPIC, mode="sync", count=COUNT)
    client.call("consume", group=GROUP, topic=TOPIC)
    client.call("await", group=GROUP, count=COUNT)
    client.call("stop", group=GROUP)
    client.close()
    return results


def test_cluster_list(mqadmin: MqAdmin, broker: OurBroker) -> None:
    lines = mqadmin.run("clusterList").splitlines()
    (line,) = [line for line in lines if line.startswith("DefaultCluster")]
    assert line.split()[:5] == ["DefaultCluster", "broker-a", "0", broker.address, "V5_5_0"]


def test_topic_route(mqadmin: MqAdmin, broker: OurBroker, sent: list[dict[str, Any]]) -> None:
    printed = mqadmin.run("topicRoute", "-t", TOPIC)
    route = json.loads(re.sub(r"(\d+):", r'"\1":', printed.replace(broker.address, "ADDRESS")))
    (queues,) = route["queueDatas"]
    assert (queues["brokerName"], queues["readQueueNums"], queues["writeQueueNums"]) == ("broker-a", 3, 3)
    (data,) = route["brokerDatas"]
    assert (data["cluster"], data["brokerAddrs"]) == ("DefaultCluster", {"0": "ADDRESS"})


def test_topic_status(mqadmin: MqAdmin, sent: list[dict[str, Any]]) -> None:
    rows = [
        line.split() for line in mqadmin.run("topicStatus", "-t", TOPIC).splitlines() if line.startswith("broker-a")
    ]
    assert [row[1] for row in rows] == ["0", "1", "2"]
    for row in rows:
        of_queue = [result for result in sent if result["queueId"] == int(row[1])]
        assert [int(row[2]), int(row[3])] == [0, len(of_queue)]


def test_consumer_progress(mqadmin: MqAdmin, sent: list[dict[str, Any]]) -> None:
    printed = mqadmin.run("consumerProgress", "-g", GROUP)
    rows = [line.split() for line in printed.splitlines() if line.startswith(TOPIC)]
    assert [row[2] for row in rows] == ["0", "1", "2"]
    assert sum(int(row[3]) for row in rows) == sum(int(row[4]) for row in rows) == COUNT
    assert re.search(r"Consume Diff Total: +0", printed)


@pytest.mark.parametrize("name", ["msgId", "offsetMsgId"])
def test_query_message_by_id(mqadmin: MqAdmin, sent: list[dict[str, Any]], name: str) -> None:
    printed = mqadmin.run("queryMsgById", "-t", TOPIC, "-i", sent[2][name])
    values = dict(re.findall(r"^([A-Z][A-Za-z ]+): +(.*?) *$", printed, re.MULTILINE))
    assert values["Topic"] == TOPIC
    assert values["Message Keys" if "Message Keys" in values else "Keys"] == "[sync-2]"
    assert values["Queue ID"] == str(sent[2]["queueId"])
    assert values["Queue Offset"] == str(sent[2]["queueOffset"])


def test_query_message_by_key(mqadmin: MqAdmin, sent: list[dict[str, Any]]) -> None:
    printed = mqadmin.run("queryMsgByKey", "-t", TOPIC, "-k", "sync-4")
    (row,) = [line.split() for line in printed.splitlines() if line.startswith(sent[4]["msgId"])]
    assert row[:3] == [sent[4]["msgId"], str(sent[4]["queueId"]), str(sent[4]["queueOffset"])]


def test_stats_all(mqadmin: MqAdmin, sent: list[dict[str, Any]]) -> None:
    printed = mqadmin.run("statsAll", "-t", TOPIC)
    (line,) = [line for line in printed.splitlines() if line.startswith(TOPIC)]
    words = line.split()
    # topic, group, lag, in and out per second, in and out within a day
    assert words[:2] == [TOPIC, GROUP]
    assert [int(word) for word in words[-2:]] == [COUNT, COUNT]
