"""Groups by request: made, listed, deleted; who is connected, and who consumes what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.broker.operator.group_admin import GroupAdminService
from bolide.broker.refused import Refused, remark_of
from bolide.broker.tables.clients import Client
from bolide.broker.tables.groups import GroupTable
from bolide.layout.names import FIRST_GROUPS
from bolide.remoting import codes
from bolide.remoting.bodies.clients import ConsumerData, SubscriptionData
from bolide.remoting.command import Command, make_request, make_response
from bolide.remoting.errors import BodyError
from tests.broker.parts import NOW, Parts, reply_of


class Groups(Parts):
    """The parts with requests about groups."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.service = GroupAdminService(
            self.options, self.groups, self.offsets, self.clients, lambda: "127.0.0.1:10911", self.stats
        )

    def ask(self, code: int, body: bytes = b"", **fields: str) -> Command:
        """The answer to a request, a refusal made one as the executor does."""
        request = make_request(code, 1, fields, body)
        try:
            return reply_of(self.service.handlers()[code](self.channel, request, NOW))
        except Refused as no:
            return make_response(request, no.response_code, remark_of(no))

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
    table = json.loads(answer.body)["subscriptionGroupTable"]
    assert table["g"] == shown and sorted(table) == sorted([*FIRST_GROUPS, "g"])
    assert answer.ext() == {"totalGroupNum": "9"}


def test_invalid_group_name_is_rejected(parts: Groups) -> None:
    assert parts.ask(codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).code == 0  # as Java: no body, nothing to do
    for name in ("", "a b", "x" * 121):
        assert parts.create(groupName=name).code == codes.INVALID_PARAMETER
    assert parts.create(groupName="x" * 120).code == 0
    assert parts.ask(codes.GET_SUBSCRIPTIONGROUP_CONFIG, group="a b").code == codes.SUBSCRIPTION_GROUP_NOT_EXIST
    assert parts.ask(codes.GET_SUBSCRIPTIONGROUP_CONFIG, group="g").code == 0  # asking makes it, as in Java


def test_a_group_that_may_not_be_made_is_not_there(tmp_path: Path) -> None:
    parts = Groups(tmp_path, auto_create_subscription_group=False)
    for group, code in (("g", 26), ("DEFAULT_CONSUMER", 26), ("TOOLS_CONSUMER", 0), ("CID_RMQ_SYS_X", 0)):
        assert parts.ask(codes.GET_SUBSCRIPTIONGROUP_CONFIG, group=group).code == code, group
    parts.close()


def test_a_list_is_made_or_nothing_of_it(parts: Groups) -> None:
    def create(*groups: dict[str, Any]) -> int:
        body = json.dumps({"groupConfigList": list(groups)}).encode()
        return parts.ask(codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body).code

    assert create({"groupName": "a"}, {"groupName": "b", "retryMaxTimes": 2}) == 0
    assert parts.groups.table["b"].retry_max_times == 2
    assert create({"groupName": "c"}, {"groupName": "a b"}) == codes.INVALID_PARAMETER
    assert create({"groupName": "c"}, {"groupName": "d", "attributes": {"+odd": "1"}}) == codes.SYSTEM_ERROR
    assert parts.groups.get("c") is None
    assert parts.ask(codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST).code == codes.SYSTEM_ERROR


def test_attributes_of_a_group(parts: Groups) -> None:
    assert parts.create(attributes={"+priority.factor": "50"}).code == 0
    assert parts.create(attributes={"+lite.sub.model": "Shared"}).code == 0
    assert parts.groups.table["g"].attributes == {"priority.factor": "50", "lite.sub.model": "Shared"}
    for wrong in ({"+priority.factor": "101"}, {"priority.factor": "1"}, {"+lite.sub.model": "x"}):
        assert parts.create(attributes=wrong).code == codes.SYSTEM_ERROR
    assert parts.create(attributes={"-priority.factor": ""}).code == 0
    assert parts.groups.table["g"].attributes == {"lite.sub.model": "Shared"}


def test_a_page_of_the_groups(parts: Groups) -> None:
    version = json.dumps(parts.groups.data_version.to_json())
    parts.groups.forbid_read("CID_ONSAPI_PULL", "T", True, NOW)
    body = parts.ask(codes.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, groupSeq="1", maxGroupNum="2", dataVersion=version).body
    assert list(json.loads(body)["subscriptionGroupTable"]) == sorted(FIRST_GROUPS)[:2]  # the version is another now
    version = json.dumps(parts.groups.data_version.to_json())
    body = parts.ask(codes.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, groupSeq="1", maxGroupNum="2", dataVersion=version).body
    assert list(json.loads(body)["subscriptionGroupTable"]) == sorted(FIRST_GROUPS)[1:3]
    assert json.loads(body)["forbiddenTable"] == {}


def test_a_group_is_kept_from_a_topic_and_let_again(parts: Groups) -> None:
    def forbid(**fields: str) -> Any:
        answer = parts.ask(codes.UPDATE_AND_GET_GROUP_FORBIDDEN, group="g", topic="T", **fields)
        return json.loads(answer.body)

    assert forbid() == {"group": "g", "readable": True, "topic": "T"}
    assert forbid(readable="false")["readable"] is False
    listed = json.loads(parts.ask(codes.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body)
    assert "g" not in listed["subscriptionGroupTable"] and listed["forbiddenTable"] == {"g": {"T": 4}}
    assert "subscriptionGroup" in parts.effects.persists
    again = GroupTable(parts.options, parts.effects, NOW)
    again.load(parts.groups.encode())
    assert (again.forbidden, again.may_read("g", "T"), again.may_read("g", "S")) == ({"g": {"T": 4}}, False, True)
    assert forbid()["readable"] is False
    assert forbid(readable="true")["readable"] is True
    assert parts.groups.forbidden == {}


@pytest.mark.parametrize(("fields", "left"), [({}, 5), ({"cleanOffset": "true"}, -1), ({"removeOffset": "true"}, -1)])
def test_a_deleted_group_takes_its_offsets_along_when_asked_to(
    parts: Groups, fields: dict[str, str], left: int
) -> None:
    parts.create()
    parts.offsets.commit("g", "T", 0, 5, NOW)
    assert parts.ask(codes.DELETE_SUBSCRIPTIONGROUP, groupName="g", **fields).code == 0
    assert parts.groups.get("g") is None
    assert parts.offsets.query("g", "T", 0) == left


def test_a_deleted_system_group_leaves_its_offsets(parts: Groups) -> None:
    parts.offsets.commit("CID_RMQ_SYS_TRANS", "T", 0, 5, NOW)
    for _ in range(2):
        answer = parts.ask(codes.DELETE_SUBSCRIPTIONGROUP, groupName="CID_RMQ_SYS_TRANS", cleanOffset="true")
        assert answer.code == 0
    assert parts.offsets.query("CID_RMQ_SYS_TRANS", "T", 0) == 5


def test_connections_of_a_group_are_listed(parts: Groups) -> None:
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
    assert (producer["clientId"], producer["remoteIP"], producer["lastUpdateTimestamp"]) == ("c", "/10.1.2.3:4567", NOW)


def test_groups_and_topics_of_consumption_are_listed(parts: Groups) -> None:
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


@pytest.mark.parametrize(
    "wrong",
    [
        {"retryQueueNums": 70_000_000},
        {"retryQueueNums": 5_000_000_000},
        {"retryMaxTimes": 1 << 31},
        {"brokerId": 1 << 63},
        {"consumeTimeoutMinute": "soon"},
        {"groupRetryPolicy": {"next": "x" * 70_000}},
    ],
)
def test_settings_that_no_peer_could_read_are_refused(parts: Groups, wrong: dict[str, Any]) -> None:
    assert parts.create(**wrong).code == codes.INVALID_PARAMETER
    assert parts.groups.get("g") is None and "subscriptionGroup" not in parts.effects.persists


def test_numbers_of_a_file_are_those_that_can_be(parts: Groups) -> None:
    stored = {"g": {"groupName": "g", "retryQueueNums": 5_000_000_000, "retryMaxTimes": None, "brokerId": "x"}}
    parts.groups.load(json.dumps({"subscriptionGroupTable": stored}).encode())
    found = parts.groups.table["g"]
    assert (found.retry_queue_nums, found.retry_max_times, found.broker_id) == (65_536, 16, 0)


@pytest.mark.parametrize("body", [b'[{"groupName":"g"}]', b'"g"', b"1"])
def test_a_body_that_is_no_group_makes_none(parts: Groups, body: bytes) -> None:
    with pytest.raises(BodyError, match="must be an object"):
        parts.ask(codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)
    assert parts.groups.get("g") is None
    assert parts.ask(codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, b"null").code == 0
