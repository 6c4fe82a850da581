"""Topics by request: made, changed, listed, deleted, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.broker.core.outcome import reply
from bolide.broker.operator.topic_admin import TopicAdminService
from bolide.broker.refused import Refused, remark_of
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request, make_response
from tests.broker.parts import NOW, Parts, reply_of, send_request, text


class Topics(Parts):
    """The parts with requests about topics."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.service = TopicAdminService(self.options, self.store, self.topics, self.offsets)

    def ask(self, code: int, body: object = None, **fields: str) -> Command:
        """The answer to a request, a refusal made one as the executor does."""
        data = b"" if body is None else json.dumps(body).encode()
        request = make_request(code, 1, fields, data)
        try:
            return reply_of(self.service.handlers()[code](self.channel, request, NOW))
        except Refused as no:
            return reply_of(reply(make_response(request, no.response_code, remark_of(no))))

    def create_list(self, *topics: dict[str, Any]) -> Command:
        return self.ask(codes.UPDATE_AND_CREATE_TOPIC_LIST, {"topicConfigList": list(topics)})

    def attributes(self, topic: str) -> Any:
        return json.loads(self.ask(codes.GET_TOPIC_CONFIG, topic=topic).body)["attributes"]

    def page(self, **fields: str) -> list[str]:
        """The names in the answer to a question for a page, apart from the first topics' own order."""
        return list(json.loads(self.ask(codes.GET_ALL_TOPIC_CONFIG, **fields).body)["topicConfigTable"])

    def create(self, topic: str = "T", **fields: str) -> Command:
        given = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "3", "writeQueueNums": "2", "perm": "6"}
        more = {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
        return self.ask(codes.UPDATE_AND_CREATE_TOPIC, **given | more | fields)


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Topics]:
    made = Topics(tmp_path)
    made.effects.persists.clear()
    yield made
    made.close()


def test_a_topic_is_made_written_and_registered(parts: Topics) -> None:
    assert (
        parts.create(order="true", topicFilterType="MULTI_TAG", topicSysFlag="1", attributes="+message.type=FIFO").code
        == 0
    )
    shown = json.loads(parts.ask(codes.GET_TOPIC_CONFIG, topic="T").body)
    assert shown == {
        "attributes": {"message.type": "FIFO"}, "order": True, "perm": 6, "readQueueNums": 3,
        "topicFilterType": "MULTI_TAG", "topicName": "T", "topicSysFlag": 1, "writeQueueNums": 2,
    }  # fmt: skip
    assert "topics" in parts.effects.persists and "T" in parts.effects.registrations
    answer = parts.ask(codes.GET_ALL_TOPIC_CONFIG)
    listed = json.loads(answer.body)
    assert listed["topicConfigTable"]["T"] == shown
    assert answer.ext()["totalTopicNum"] == str(len(listed["topicConfigTable"]))
    assert listed["dataVersion"]["counter"] == parts.topics.data_version.counter


def test_the_same_again_changes_nothing(parts: Topics) -> None:
    parts.create()
    counter = parts.topics.data_version.counter
    assert parts.create().code == 0
    assert parts.topics.data_version.counter == counter
    assert parts.create(perm="4").code == 0
    assert parts.topics.data_version.counter == counter + 1


@pytest.mark.parametrize(
    ("topic", "fields"),
    [
        ("a b", {}),
        ("", {}),
        ("x" * 128, {}),
        ("SELF_TEST_TOPIC", {}),
        ("TRANS_CHECK_MAX_TIME_TOPIC", {}),
        ("RMQ_SYS_TRACE_TOPIC", {}),
        ("DefaultCluster_REPLY_TOPIC", {}),
        ("rmq_sys_anything", {}),
        ("T", {"perm": "8"}),
        ("T", {"perm": "-1"}),
        ("T", {"readQueueNums": "-1"}),
        ("T", {"writeQueueNums": "65537"}),
    ],
)
def test_invalid_topic_is_rejected(parts: Topics, topic: str, fields: dict[str, str]) -> None:
    assert parts.create(topic, **fields).code == codes.INVALID_PARAMETER
    assert parts.topics.get("T") is None


def test_limits_themselves_are_fine(parts: Topics) -> None:
    assert parts.create("x" * 127, perm="7", writeQueueNums="65536").code == 0
    assert parts.create("y", perm="0", readQueueNums="0", writeQueueNums="0").code == 0


def test_attributes_are_set_changed_and_removed(parts: Topics) -> None:
    assert parts.create(attributes="+message.type=NORMAL,+queue.type=SimpleCQ").code == 0
    assert parts.create(attributes="+message.type=DELAY").code == 0
    assert parts.attributes("T") == {"message.type": "DELAY", "queue.type": "SimpleCQ"}
    assert parts.create(attributes="-message.type,").code == 0
    assert parts.attributes("T") == {"queue.type": "SimpleCQ"}
    assert parts.create(attributes=",,").code == 0, "Java's split leaves out what is empty at the end"
    assert parts.create(attributes=",+message.type=DELAY").code == codes.SYSTEM_ERROR
    assert parts.attributes("T") == {"queue.type": "SimpleCQ"}
    assert parts.create(perm="4").code == 0
    assert parts.attributes("T") == {"queue.type": "SimpleCQ"}


@pytest.mark.parametrize(
    ("attributes", "code", "says"),
    [
        ("+a=b", 1, "unsupported key: a"),
        ("a=b", 1, "add/alter attribute format is wrong: a"),
        ("+message.type", 1, "delete attribute format is wrong"),
        ("+message.type=", 1, "has no value"),
        ("-message.type", 1, "only add attribute is supported while creating topic. key: message.type"),
        ("+message.type=ODD", 1, "value is not in set"),
        ("+message.type=MIXED", 29, "MIXED message type is not supported."),
        ("+message.type=NORMAL,+message.type=FIFO", 1, "key duplication"),
        ("+reserve.time=-2", 1, r"value is not in range\(-1, 9223372036854775807\)"),
        ("+reserve.time=x", 1, 'For input string: "x"'),
        ("++=b", 1, "kv string format wrong."),
        ("+=b", 1, "kv string format wrong."),
    ],
)
def test_wrong_attributes_of_a_new_topic(parts: Topics, attributes: str, code: int, says: str) -> None:
    answer = parts.create(attributes=attributes)
    assert (answer.code, bool(re.search(says, answer.remark or ""))) == (code, True), answer.remark
    assert parts.topics.get("T") is None


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ("+queue.type=BatchCQ", "attempt to update an unchangeable attribute. key: queue.type"),
        ("-message.type", "attempt to delete a nonexistent key: message.type"),
        ("+message.type=FIFO,-message.type", "alter duplication key. key: message.type"),
    ],
)
def test_wrong_changes_of_attributes(parts: Topics, attributes: str, says: str) -> None:
    parts.create(attributes="+queue.type=SimpleCQ")
    answer = parts.create(attributes=attributes)
    assert (answer.code, answer.remark) == (codes.SYSTEM_ERROR, says)
    assert parts.attributes("T") == {"queue.type": "SimpleCQ"}


def test_mixed_types_where_they_are_allowed(tmp_path: Path) -> None:
    parts = Topics(tmp_path, enable_mixed_message_type=True)
    assert parts.create(attributes="+message.type=MIXED").code == 0
    parts.close()


def test_a_filter_type_that_is_none_is_an_error(parts: Topics) -> None:
    answer = parts.create(topicFilterType="NO")
    assert (answer.code, answer.remark) == (codes.SYSTEM_ERROR, "topicFilterType = [NO] value invalid")


def test_a_list_is_made_or_nothing_of_it(parts: Topics) -> None:
    fifo = {"topicName": "L2", "writeQueueNums": 2, "attributes": {"+message.type": "FIFO"}}
    assert parts.create_list({"topicName": "L1", "perm": 4}, fifo).code == 0
    assert parts.topics.table["L1"].perm == 4
    assert (parts.topics.table["L2"].write_queue_nums, parts.attributes("L2")) == (2, {"message.type": "FIFO"})
    assert parts.create_list({"topicName": "L3"}, {"topicName": "a b"}).code == codes.INVALID_PARAMETER
    assert parts.create_list({"topicName": "L3"}, {"topicName": "L4", "attributes": {"a": "b"}}).code == 1
    assert parts.topics.get("L3") is None
    assert parts.create_list().code == 0
    assert parts.ask(codes.UPDATE_AND_CREATE_TOPIC_LIST).code == codes.SYSTEM_ERROR


def test_a_page_of_the_topics(parts: Topics) -> None:
    names = sorted(parts.topics.table)
    version = json.dumps(parts.topics.data_version.to_json())
    assert parts.page(topicSeq="2", maxTopicNum="3", dataVersion=version) == names[2:5]
    assert parts.page(topicSeq="2", maxTopicNum="3") == names[:3]
    assert parts.page(topicSeq="2", maxTopicNum="3", dataVersion='{"counter":77}') == names[:3]
    assert parts.page(topicSeq="2", maxTopicNum="3", dataVersion="{") == names[:3]
    assert parts.page(topicSeq="0") == names
    assert len(parts.page(topicSeq="1000", dataVersion=version)) == 0
    assert parts.ask(codes.GET_ALL_TOPIC_CONFIG, topicSeq="0", maxTopicNum="1").ext()["totalTopicNum"] == str(
        len(names)
    )


def test_a_deleted_topic_is_gone_with_its_messages_and_offsets(parts: Topics) -> None:
    parts.create()
    parts.answer(send_request())
    parts.offsets.commit("g", "T", 0, 1, NOW)
    assert parts.ask(codes.DELETE_TOPIC_IN_BROKER, topic="T").code == 0
    assert parts.topics.get("T") is None
    assert parts.store.max_queue_offset("T", 0) == 0
    assert parts.offsets.query("g", "T", 0) == -1
    assert parts.ask(codes.GET_TOPIC_CONFIG, topic="T").code == codes.TOPIC_NOT_EXIST
    for topic in (" ", "TBW102", "rmq_sys_x"):
        assert parts.ask(codes.DELETE_TOPIC_IN_BROKER, topic=topic).code == codes.INVALID_PARAMETER


def test_a_slave_is_told_where_topics_were_deleted(parts: Topics) -> None:
    asks = {"deletedTopics": "true"}
    parts.create("T")
    parts.create("U")
    for topic in ("T", "U"):
        parts.answer(send_request(topic))
        assert b"deletedTopics" not in parts.ask(codes.GET_ALL_TOPIC_CONFIG, **asks).body
    ends = {}
    for topic in ("T", "U"):
        assert parts.ask(codes.DELETE_TOPIC_IN_BROKER, topic=topic).code == 0
        ends[topic] = int(parts.store.end_offset)
        parts.answer(send_request("T"))
    parts.create("T")
    assert json.loads(parts.ask(codes.GET_ALL_TOPIC_CONFIG, **asks).body)["deletedTopics"] == ends, (
        "also of one that is gone"
    )
    first, second = (
        json.loads(
            parts.ask(codes.GET_ALL_TOPIC_CONFIG, topicSeq=str(at), maxTopicNum="1", dataVersion=version, **asks).body
        )
        for version in (json.dumps(parts.topics.data_version.to_json()),)
        for at in (0, sorted(parts.topics.table).index("T"))  # of one that is gone the first page tells
    )
    assert (first["deletedTopics"], second["deletedTopics"]) == ({"U": ends["U"]}, {"T": ends["T"]}), (
        "on the first page"
    )
    parts.create("U")
    assert json.loads(parts.ask(codes.GET_ALL_TOPIC_CONFIG, **asks).body)["deletedTopics"] == ends
    version = json.dumps(parts.topics.data_version.to_json())
    names = sorted(parts.topics.table)
    page = {"maxTopicNum": "1", "dataVersion": version, **asks}
    of_one = parts.ask(codes.GET_ALL_TOPIC_CONFIG, topicSeq=str(names.index("U")), **page)
    assert json.loads(of_one.body)["deletedTopics"] == {"U": ends["U"]}
    assert b"deletedTopics" not in parts.ask(codes.GET_ALL_TOPIC_CONFIG).body, "RocketMQ's slaves do not ask"


def test_a_slave_is_told_which_topics_were_guessed_until_an_operator_sets_them(parts: Topics) -> None:
    asks = {"deletedTopics": "true"}
    parts.topics.learn("T", 3, NOW)
    parts.create("U")
    assert json.loads(parts.ask(codes.GET_ALL_TOPIC_CONFIG, **asks).body)["guessedTopics"] == {"T": 3}
    assert b"guessedTopics" not in parts.ask(codes.GET_ALL_TOPIC_CONFIG).body, "RocketMQ's slaves do not ask"
    before = parts.topics.data_version.to_json()
    as_guessed = {"readQueueNums": "3", "writeQueueNums": "3"}
    parts.create("T", **as_guessed)
    assert parts.topics.table["T"].read_queue_nums == 3
    assert b"guessedTopics" not in parts.ask(codes.GET_ALL_TOPIC_CONFIG, **asks).body
    assert parts.topics.data_version.to_json() != before, "slaves ask again"


def test_queues_without_a_topic_are_deleted_when_asked(parts: Topics) -> None:
    for topic in ("T", "U"):
        parts.create(topic)
        parts.answer(send_request(topic))
    parts.answer(send_request("T", properties=text(DELAY="3")))
    forgotten: list[str] = []
    parts.service = TopicAdminService(
        parts.options, parts.store, parts.topics, parts.offsets, None, [forgotten.append]
    )  # fmt: skip
    parts.topics.delete("T", NOW)  # as where topics.json was lost
    parts.offsets.commit("g", "T", 0, 1, NOW)
    assert parts.ask(codes.CLEAN_UNUSED_TOPIC).code == 0
    assert forgotten == ["T"] and parts.offsets.query("g", "T", 0) == -1
    assert parts.store.max_queue_offset("T", 0) == 0 and parts.store.max_queue_offset("U", 0) == 1
    assert parts.store.max_queue_offset("SCHEDULE_TOPIC_XXXX", 2) == 1
    assert parts.ask(codes.CLEAN_UNUSED_TOPIC).code == 0 and forgotten == ["T"]


def test_the_same_again_waits_for_the_file_that_lacks_it(parts: Topics) -> None:
    parts.create()
    parts.effects.take()
    parts.create()
    assert parts.effects.persists == {"topics"}, "the first change is not on disk yet"
    parts.effects.take()
    parts.effects.saved("topics", parts.effects.changes("topics"))
    parts.create()
    assert not parts.effects.persists
    for _ in range(2):
        parts.ask(codes.DELETE_TOPIC_IN_BROKER, topic="T")
        assert "topics" in parts.effects.persists
        parts.effects.take()


def test_system_topics_are_listed(parts: Topics) -> None:
    topics = json.loads(parts.ask(codes.GET_SYSTEM_TOPIC_LIST_FROM_BROKER).body)["topicList"]
    assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "CHECKPOINT_TOPIC", "broker-a"} <= set(topics)
