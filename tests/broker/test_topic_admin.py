"""Topics by request: made, changed, listed, deleted, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.broker.topic_admin import TopicAdminService, change_attributes
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from tests.broker.parts import NOW, Parts, reply_of, send_request


class Topics(Parts):
    """The parts with requests about topics."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.service = TopicAdminService(self.store, self.topics, self.offsets)

    def ask(self, code: int, **fields: str) -> Command:
        return reply_of(self.service.handlers()[code](self.channel, make_request(code, 1, fields), NOW))

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
    assert parts.create(order="true", topicFilterType="MULTI_TAG", topicSysFlag="1", attributes="+a=b").code == 0
    shown = json.loads(parts.ask(codes.GET_TOPIC_CONFIG, topic="T").body)
    assert shown == {
        "attributes": {"a": "b"}, "order": True, "perm": 6, "readQueueNums": 3, "topicFilterType": "MULTI_TAG",
        "topicName": "T", "topicSysFlag": 1, "writeQueueNums": 2,
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
        ("rmq_sys_anything", {}),
        ("T", {"perm": "8"}),
        ("T", {"perm": "-1"}),
        ("T", {"readQueueNums": "-1"}),
        ("T", {"writeQueueNums": "65537"}),
    ],
)
def test_what_is_refused(parts: Topics, topic: str, fields: dict[str, str]) -> None:
    assert parts.create(topic, **fields).code == codes.INVALID_PARAMETER
    assert parts.topics.get("T") is None


def test_limits_themselves_are_fine(parts: Topics) -> None:
    assert parts.create("x" * 127, perm="7", writeQueueNums="65536").code == 0
    assert parts.create("y", perm="0", readQueueNums="0", writeQueueNums="0").code == 0


def test_attributes() -> None:
    attributes = {"old": "1"}
    change_attributes(attributes, "+a=b,-old, ,+c=")
    assert attributes == {"a": "b", "c": ""}
    for wrong in ("a=b", "+a", "-a=b", "+=b"):
        with pytest.raises(ValueError, match="must be"):
            change_attributes({}, wrong)


def test_a_wrong_attribute_is_an_error(parts: Topics) -> None:
    assert parts.create(attributes="a=b").code == codes.SYSTEM_ERROR


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


def test_system_topics_are_listed(parts: Topics) -> None:
    topics = json.loads(parts.ask(codes.GET_SYSTEM_TOPIC_LIST_FROM_BROKER).body)["topicList"]
    assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest"} <= set(topics)
