"""Groups by request: made, listed, deleted; who is connected, and who consumes what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.broker.clients import Client
from bolide.broker.group_admin import GroupAdminService
from bolide.remoting import codes
from bolide.remoting.bodies.clients import ConsumerData, SubscriptionData
from bolide.remoting.command import Command, make_request
from tests.broker.parts import NOW, Parts, reply_of


class Groups(Parts):
    """The parts with requests about groups."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.service = GroupAdminService(self.groups, self.offsets, self.clients)

    def ask(self, code: int, body: bytes = b"", **fields: str) -> Command:
        return reply_of(self.service.handlers()[code](self.channel, make_request(code, 1, fields, body), NOW))

    def create(self, **settings: Any) -> Command:
        body = json.dumps({"groupName": "g", **settings}).encode()
        return self.ask(codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)

    def connect(self) -> None:
        data = ConsumerData(group_name="g", consume_type="CONSUME_PASSIVELY", message_model="CLUSTERING")
        data.subscription_data_set = [SubscriptionData(topic="T", sub_string="*")]
        client = Client(self.channel, "c", 0, 513, NOW)
        self.clients.register_consumer(data, client)
        self.clients.register_producer("p", client)


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Groups]:
    made = Groups(tmp_path)
    made.effects.persists.clear()
    yield made
    made.close()


def test_a_group_is_made_and_written(parts: Groups) -> None:
    assert parts.create(retryMaxTimes=3, consumeEnable=False, brokerId=1).code == 0
    shown = json.loads(parts.ask(codes.GET_SUBSCRIPTIONGROUP_CONFIG, group="g").body)
    assert (shown["retryMaxTimes"], shown["consumeEnable"], shown["brokerId"]) == (3, False, 1)
    assert (shown["retryQueueNums"], shown["consumeTimeoutMinute"], shown["whichBrokerWhenConsumeSlowly"]) == (1, 15, 1)
    assert "subscriptionGroup" in parts.effects.persists
    answer = parts.ask(codes.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    assert json.loads(answer.body)["subscriptionGroupTable"] == {"g": shown}
    assert answer.ext() == {"totalGroupNum": "1"}


def test_what_is_no_group(parts: Groups) -> None:
    assert parts.ask(codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).code == 0  # as Java: no body, nothing to do
    for name in ("", "a b", "x" * 121):
        assert parts.create(groupName=name).code == codes.INVALID_PARAMETER
    assert parts.create(groupName="x" * 120).code == 0
    assert parts.ask(codes.GET_SUBSCRIPTIONGROUP_CONFIG, group="g").code == codes.SUBSCRIPTION_GROUP_NOT_EXIST


@pytest.mark.parametrize(("fields", "left"), [({}, 5), ({"cleanOffset": "true"}, -1), ({"removeOffset": "true"}, -1)])
def test_a_deleted_group_takes_its_offsets_along_when_asked_to(
    parts: Groups, fields: dict[str, str], left: int
) -> None:
    parts.create()
    parts.offsets.commit("g", "T", 0, 5, NOW)
    assert parts.ask(codes.DELETE_SUBSCRIPTIONGROUP, groupName="g", **fields).code == 0
    assert parts.groups.get("g") is None
    assert parts.offsets.query("g", "T", 0) == left


def test_who_is_connected(parts: Groups) -> None:
    consumers = parts.ask(codes.GET_CONSUMER_CONNECTION_LIST, consumerGroup="g")
    producers = parts.ask(codes.GET_PRODUCER_CONNECTION_LIST, producerGroup="p")
    assert (consumers.code, producers.code) == (codes.CONSUMER_NOT_ONLINE, codes.SYSTEM_ERROR)
    parts.connect()
    body = json.loads(parts.ask(codes.GET_CONSUMER_CONNECTION_LIST, consumerGroup="g").body)
    one = {"clientAddr": "10.1.2.3:4567", "clientId": "c", "language": "JAVA", "version": 513}
    assert body["connectionSet"] == [one]
    assert (body["consumeType"], body["messageModel"]) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert body["subscriptionTable"]["T"]["subString"] == "*"
    body = json.loads(parts.ask(codes.GET_PRODUCER_CONNECTION_LIST, producerGroup="p").body)
    assert body["connectionSet"] == [one]
    (producer,) = json.loads(parts.ask(codes.GET_ALL_PRODUCER_INFO).body)["data"]["p"]
    assert (producer["clientId"], producer["remoteIP"], producer["lastUpdateTimestamp"]) == ("c", "10.1.2.3:4567", NOW)


def test_who_consumes_what(parts: Groups) -> None:
    parts.connect()
    parts.offsets.commit("absent", "T", 0, 5, NOW)
    parts.offsets.commit("g", "S", 0, 5, NOW)
    assert json.loads(parts.ask(codes.QUERY_TOPIC_CONSUME_BY_WHO, topic="T").body)["groupList"] == ["absent", "g"]
    assert json.loads(parts.ask(codes.QUERY_TOPICS_BY_CONSUMER, group="g").body)["topicList"] == ["S"]
    body = json.loads(parts.ask(codes.QUERY_SUBSCRIPTION_BY_CONSUMER, group="g", topic="T").body)
    assert body["subscriptionData"]["topic"] == "T"
    assert "subscriptionData" not in json.loads(
        parts.ask(codes.QUERY_SUBSCRIPTION_BY_CONSUMER, group="x", topic="T").body
    )
