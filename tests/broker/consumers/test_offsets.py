"""Requests about offsets: what is committed, where queues end, what a time means, and resets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.broker.consumers.offsets import OffsetService
from bolide.broker.refused import Refused
from bolide.broker.tables.clients import Client
from bolide.broker.tables.groups import SubscriptionGroupConfig
from bolide.broker.tables.topic_config import TopicConfig
from bolide.declaration import with_values
from bolide.remoting import codes
from bolide.remoting.bodies.clients import ConsumerData, SubscriptionData
from bolide.remoting.command import Command, make_request
from tests.broker.parts import NOW, Parts, reply_of, send_request


class Offsets(Parts):
    """The parts with the requests about offsets."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.service = OffsetService(self.options, self.store, self.offsets, self.topics, self.groups, self.clients)
        self.topics.put(TopicConfig("T", 2, 2), NOW)
        self.groups.put(SubscriptionGroupConfig("g"), NOW)

    def ask(self, code: int, **fields: str) -> Command:
        command = make_request(code, 1, {"topic": "T", "queueId": "0", "consumerGroup": "g", **fields})
        return reply_of(self.service.handlers()[code](self.channel, command, NOW))

    def offset(self, code: int, **fields: str) -> str:
        answer = self.ask(code, **fields)
        assert answer.code == codes.SUCCESS, answer.remark
        return answer.ext()["offset"]


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Offsets]:
    made = Offsets(tmp_path)
    for number in range(4):
        assert made.answer(send_request(body=b"%d" % number), NOW + 1000 * number).code == 0
    yield made
    made.close()


def test_a_committed_offset_is_told(parts: Offsets) -> None:
    answer = parts.ask(codes.UPDATE_CONSUMER_OFFSET, commitOffset="3")
    assert answer.code == codes.SUCCESS
    assert parts.offset(codes.QUERY_CONSUMER_OFFSET) == "3"
    parts.ask(codes.UPDATE_CONSUMER_OFFSET, commitOffset="1")  # a consumer may go back
    assert parts.offset(codes.QUERY_CONSUMER_OFFSET) == "1"


def test_a_new_group_of_a_young_topic_begins_at_zero_unless_it_says_no(parts: Offsets) -> None:
    assert parts.offset(codes.QUERY_CONSUMER_OFFSET) == "0"
    unset = parts.ask(codes.QUERY_CONSUMER_OFFSET, setZeroIfNotFound="false")
    assert (unset.code, unset.remark) == (22, "Not found, do not set to zero, maybe this group boot first")
    assert parts.offset(codes.QUERY_CONSUMER_OFFSET, setZeroIfNotFound="true") == "0"


def test_a_consumer_at_work_begins_at_zero_of_an_empty_queue(parts: Offsets) -> None:
    """Else it would begin at the end that it asks for next, behind what came in between."""
    empty = {"queueId": "1"}
    assert parts.ask(codes.QUERY_CONSUMER_OFFSET, **empty).code == codes.QUERY_NOT_FOUND
    client = Client(parts.channel, "c1", 0, 400, NOW)
    parts.clients.register_consumer(ConsumerData("g", subscription_data_set=[]), client)
    assert parts.offset(codes.QUERY_CONSUMER_OFFSET, **empty) == "0"
    unset = parts.ask(codes.QUERY_CONSUMER_OFFSET, setZeroIfNotFound="false", **empty)
    assert unset.code == codes.QUERY_NOT_FOUND
    parts.clients.unregister_consumer("g", parts.channel)
    assert parts.ask(codes.QUERY_CONSUMER_OFFSET, **empty).code == codes.QUERY_NOT_FOUND


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"consumerGroup": "nobody"}, codes.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"topic": "nothing"}, codes.TOPIC_NOT_EXIST),
        ({"topic": "nothing", "queueId": "x"}, codes.TOPIC_NOT_EXIST),
        ({"queueId": "x"}, codes.INVALID_PARAMETER),
        ({"commitOffset": ""}, codes.INVALID_PARAMETER),
        ({"queueId": "-1"}, codes.INVALID_PARAMETER),
        ({"queueId": "65536"}, codes.INVALID_PARAMETER),
    ],
)
def test_offsets_of_unknown_names_are_refused(parts: Offsets, fields: dict[str, str], code: int) -> None:
    assert parts.ask(codes.UPDATE_CONSUMER_OFFSET, **{"commitOffset": "1", **fields}).code == code


@pytest.mark.parametrize(("lacking", "code"), [("topic", codes.SYSTEM_ERROR), ("consumerGroup", 26), ("queueId", 29)])
def test_an_offset_that_lacks_a_field_is_refused(parts: Offsets, lacking: str, code: int) -> None:
    fields = {"topic": "T", "queueId": "0", "consumerGroup": "g", "commitOffset": "1"}
    del fields[lacking]
    request = make_request(codes.UPDATE_CONSUMER_OFFSET, 1, fields)
    assert reply_of(parts.service.handlers()[request.code](parts.channel, request, NOW)).code == code


def test_a_queue_the_topic_has_no_more_may_be_committed(parts: Offsets) -> None:
    commit = codes.UPDATE_CONSUMER_OFFSET
    assert parts.ask(commit, queueId="1", commitOffset="1").code == codes.SUCCESS
    parts.topics.put(TopicConfig("T", 0, 0), NOW)
    assert parts.ask(commit, queueId="0", commitOffset="2").code == codes.SUCCESS
    assert parts.ask(commit, queueId="1", commitOffset="2").code == codes.INVALID_PARAMETER


@pytest.mark.parametrize("queue_id", ["2", "99", "65535"])
def test_an_offset_of_a_queue_that_never_was_is_refused(parts: Offsets, queue_id: str) -> None:
    for code in (codes.UPDATE_CONSUMER_OFFSET, codes.INVOKE_BROKER_TO_RESET_OFFSET):
        fields = {"group": "g", "timestamp": "-1", "isForce": "true", "commitOffset": "1"}
        answer = parts.ask(code, queueId=queue_id, **fields)
        assert answer.code == codes.INVALID_PARAMETER and f"has no queue {queue_id}" in (answer.remark or "")
    assert parts.offsets.queues("g", "T") == {}


def test_an_offset_too_many_is_refused(parts: Offsets) -> None:
    settings = with_values(parts.options, {"max_consumer_offsets": 1})
    parts.service.configure(settings)
    parts.offsets.configure(settings)
    assert parts.ask(codes.UPDATE_CONSUMER_OFFSET, queueId="0", commitOffset="1").code == codes.SUCCESS
    answer = parts.ask(codes.UPDATE_CONSUMER_OFFSET, queueId="1", commitOffset="1")
    assert answer.code == codes.SYSTEM_ERROR and "maxConsumerOffsets is 1" in (answer.remark or "")
    assert parts.ask(codes.UPDATE_CONSUMER_OFFSET, queueId="0", commitOffset="2").code == codes.SUCCESS
    assert parts.offsets.queues("g", "T") == {0: 2}


def test_ends_of_queues(parts: Offsets) -> None:
    assert (parts.offset(codes.GET_MIN_OFFSET), parts.offset(codes.GET_MAX_OFFSET)) == ("0", "4")
    assert (parts.offset(codes.GET_MIN_OFFSET, queueId="7"), parts.offset(codes.GET_MAX_OFFSET, queueId="7")) == (
        "0",
        "0",
    )
    assert parts.offset(codes.GET_MAX_OFFSET, topic="nothing") == "0"


@pytest.mark.parametrize(
    ("time", "boundary", "offset"),
    [(0, "", "0"), (1000, "", "1"), (1000, "upper", "1"), (1500, "lower", "2"), (1500, "UPPER", "1"), (9000, "", "4")],
)
def test_offsets_by_time(parts: Offsets, time: int, boundary: str, offset: str) -> None:
    fields = {"boundaryType": boundary} if boundary else {}
    assert parts.offset(codes.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=str(NOW + time), **fields) == offset


def test_a_lite_topic_is_refused_and_not_taken_for_its_parent(parts: Offsets) -> None:
    answer = parts.ask(codes.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=str(NOW), liteTopic="chat")
    assert answer.code == codes.INVALID_PARAMETER and "liteTopic" in (answer.remark or "")


def test_the_earliest_time(parts: Offsets) -> None:
    assert parts.ask(codes.GET_EARLIEST_MSG_STORETIME).ext() == {"timestamp": str(NOW)}
    assert parts.ask(codes.GET_EARLIEST_MSG_STORETIME, topic="nothing").ext() == {"timestamp": "-1"}


def test_get_all_returns_the_offset_file(parts: Offsets) -> None:
    parts.ask(codes.UPDATE_CONSUMER_OFFSET, commitOffset="3")
    body = json.loads(parts.ask(codes.GET_ALL_CONSUMER_OFFSET).body)
    assert body["offsetTable"] == {"T@g": {"0": 3}}


def test_a_clone_takes_the_offsets_of_one_topic_or_of_all(parts: Offsets) -> None:
    parts.topics.put(TopicConfig("S", 1, 1), NOW)
    for topic in ("T", "S", "gone"):
        parts.offsets.commit("g", topic, 0, 5, NOW)
    fields = {"srcGroup": "g", "destGroup": "h", "offline": "false"}
    assert parts.ask(codes.CLONE_GROUP_OFFSET, **fields).code == codes.SUCCESS
    assert [parts.offsets.query("h", topic, 0) for topic in ("T", "S", "gone")] == [5, -1, -1]
    parts.ask(codes.CLONE_GROUP_OFFSET, **{**fields, "topic": ""})
    assert [parts.offsets.query("h", topic, 0) for topic in ("T", "S", "gone")] == [5, 5, -1]


def reset(parts: Offsets, **fields: str) -> Command:
    return parts.ask(
        codes.INVOKE_BROKER_TO_RESET_OFFSET, **{"group": "g", "timestamp": "-1", "isForce": "true", **fields}
    )


def test_a_reset_waits_for_the_next_pull_and_keeps_commits_out(parts: Offsets) -> None:
    answer = reset(parts, queueId="0", offset="2")
    assert answer.code == codes.SUCCESS
    assert b"2" in answer.body and b"broker" in answer.body
    assert parts.offset(codes.QUERY_CONSUMER_OFFSET) == "2"
    late = parts.ask(codes.UPDATE_CONSUMER_OFFSET, commitOffset="4")
    assert late.code == codes.SUCCESS and parts.offset(codes.QUERY_CONSUMER_OFFSET) == "2"
    pulled = parts.pulled(offset=4)
    assert (pulled.code, pulled.ext()["nextBeginOffset"]) == (codes.PULL_OFFSET_MOVED, "2")
    assert parts.effects.releases == [("T", 0)]
    assert parts.offset(codes.QUERY_CONSUMER_OFFSET) == "2"  # the late commit was ignored, not put off


def test_a_reset_of_all_queues_goes_by_time(parts: Offsets) -> None:
    reset(parts, queueId="-1", timestamp=str(NOW + 1000))
    assert parts.offsets.queues("g", "T") == {0: 1, 1: 0}
    reset(parts, queueId="-1", timestamp="-1")
    assert parts.offsets.queues("g", "T") == {0: 4, 1: 0}


def test_a_reset_of_what_is_not_there(parts: Offsets) -> None:
    assert reset(parts, topic="nothing").code == codes.TOPIC_NOT_EXIST
    assert reset(parts, group="nobody").code == codes.SUBSCRIPTION_GROUP_NOT_EXIST
    with pytest.raises(Refused, match="not in consume queue range"):
        reset(parts, queueId="0", offset="6")
    assert reset(parts, queueId="0", offset="5").code == codes.SUCCESS  # as in Java: the end itself is accepted


def test_a_clone_leaves_out_what_a_group_at_work_does_not_subscribe_to(parts: Offsets) -> None:
    parts.topics.put(TopicConfig("S", 1, 1), NOW)
    for topic in ("T", "S"):
        parts.offsets.commit("g", topic, 0, 5, NOW)
    wanted = ConsumerData("g", subscription_data_set=[SubscriptionData("T")])
    parts.clients.register_consumer(wanted, Client(parts.channel, "c", codes.JAVA, codes.VERSION_5_5_0, NOW))
    fields = {"srcGroup": "g", "destGroup": "h", "topic": ""}
    parts.ask(codes.CLONE_GROUP_OFFSET, **fields, offline="false")
    assert [parts.offsets.query("h", topic, 0) for topic in ("T", "S")] == [5, -1]
    parts.ask(codes.CLONE_GROUP_OFFSET, **fields, offline="true")
    assert [parts.offsets.query("h", topic, 0) for topic in ("T", "S")] == [5, 5]


def test_the_correction_is_the_slowest_group_unless_the_compared_one_is_slower(parts: Offsets) -> None:
    for group, offsets in {"a": (3, 9), "b": (2, 7), "slow": (0, 1), "c": (1, 8)}.items():
        for queue_id, offset in enumerate(offsets):
            parts.offsets.commit(group, "T", queue_id, offset, NOW)

    def correction(compare: str, filter_groups: str = "") -> dict[str, int]:
        answer = parts.ask(codes.QUERY_CORRECTION_OFFSET, compareGroup=compare, filterGroups=filter_groups)
        found: dict[str, int] = json.loads(answer.body)["correctionOffsets"]
        return found

    assert correction("a") == {"0": 0, "1": 1}
    assert correction("a", "slow,c") == {"0": 2, "1": 7}
    assert correction("slow", "slow") == {"0": (1 << 63) - 1, "1": (1 << 63) - 1}
    assert correction("c", "slow,c") == {"0": (1 << 63) - 1, "1": 7}
    assert parts.offsets.query("slow", "T", 0) == 0  # Java forgets the offsets of groups that are left out


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (codes.UPDATE_CONSUMER_OFFSET, {"commitOffset": "1000000"}),
        (codes.UPDATE_CONSUMER_OFFSET, {"commitOffset": "0"}),
        (codes.INVOKE_BROKER_TO_RESET_OFFSET, {"timestamp": "-1", "isForce": "true", "offset": "4"}),
        (codes.INVOKE_BROKER_TO_RESET_OFFSET, {"timestamp": "-1", "isForce": "true", "queueId": "-1"}),
        (codes.CLONE_GROUP_OFFSET, {"srcGroup": "g", "destGroup": "CID_RMQ_SYS_TRANS", "offline": "true"}),
    ],
)
def test_clients_cannot_move_offsets_of_a_system_group(parts: Offsets, code: int, fields: dict[str, str]) -> None:
    parts.groups.put(SubscriptionGroupConfig("CID_RMQ_SYS_TRANS"), NOW)
    parts.offsets.commit("CID_RMQ_SYS_TRANS", "T", 0, 3, NOW)
    parts.offsets.commit("g", "T", 0, 4, NOW)
    system = {"consumerGroup": "CID_RMQ_SYS_TRANS", "group": "CID_RMQ_SYS_TRANS"}
    answer = parts.ask(code, **{**system, **fields})
    assert answer.code == codes.NO_PERMISSION
    assert answer.remark == (
        "the offsets of the system group[CID_RMQ_SYS_TRANS] are the broker's own: use a consumer group of yours"
    )
    assert parts.offset(codes.QUERY_CONSUMER_OFFSET, **system) == "3"
    assert not parts.offsets.has_reset("CID_RMQ_SYS_TRANS", "T", 0)
