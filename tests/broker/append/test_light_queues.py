"""Light queues (LMQ) of a broker: topics, groups and offsets that nobody configured, and what producers may list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.broker.append.light_queues import enter_light_queues, light_queues, refusal
from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.broker.tables.groups import SubscriptionGroupConfig
from bolide.broker.tables.topic_config import TopicConfig
from bolide.remoting import codes
from bolide.remoting.batch import BatchMessage, encode_batch
from bolide.remoting.command import Command
from tests.broker.parts import NOW, Parts, again, held_of, message, properties_of, send_request, text

ON: dict[str, Any] = {"enable_lmq": True, "enable_multi_dispatch": True}


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    made = Parts(tmp_path, **ON)
    yield made
    made.close()


def listing(names: str, **more: str) -> Command:
    return send_request(properties=text(INNER_MULTI_DISPATCH=names, **more))


def bodies(parts: Parts, topic: str) -> list[bytes]:
    return [record.body for record in parts.records(topic)]


def test_a_message_is_pulled_from_every_queue_it_lists(parts: Parts) -> None:
    for number in range(3):
        names = "%LMQ%a,%LMQ%b" if number == 1 else "%LMQ%b"
        command = send_request(
            body=b"%d" % number, properties=text(INNER_MULTI_DISPATCH=names, TAGS="t"), e=str(number)
        )
        assert parts.answer(command).code == codes.SUCCESS
    answer = parts.pulled(topic="%LMQ%b")
    assert (answer.code, answer.ext()["nextBeginOffset"], answer.ext()["maxOffset"]) == (codes.SUCCESS, "3", "3")
    assert bodies(parts, "%LMQ%b") == [b"0", b"1", b"2"]
    (record,) = parts.records("%LMQ%a")
    assert (record.topic, record.queue_id) == ("T", 1)
    assert properties_of(record)["INNER_MULTI_QUEUE_OFFSET"] == "0,1"
    assert parts.pulled(topic="%LMQ%a", subscription="other").code == codes.PULL_RETRY_IMMEDIATELY
    assert parts.pulled(topic="%LMQ%never").code == codes.PULL_NOT_FOUND


def test_a_pull_of_a_light_queue_is_held_until_one_comes(parts: Parts) -> None:
    held = held_of(parts.pull(topic="%LMQ%a", sys_flag=6, suspend=1000)).waiter
    assert held.key == ("%LMQ%a", 0)
    parts.send(listing("%LMQ%a"))
    parts.store.write_pending()
    arrivals = parts.store.dispatch(1000, NOW)
    assert [(arrival.topic, arrival.max_offset) for arrival in arrivals] == [("T", 1), ("%LMQ%a", 1)]


def test_offsets_from_a_producer_are_ignored(parts: Parts) -> None:
    parts.answer(listing("%LMQ%a", INNER_MULTI_QUEUE_OFFSET="12345678"))
    assert parts.store.max_queue_offset("%LMQ%a", 0) == 1
    assert properties_of(parts.records("%LMQ%a")[0])["INNER_MULTI_QUEUE_OFFSET"] == "0"
    parts.answer(send_request(properties=text(INNER_MULTI_QUEUE_OFFSET="5")))
    assert "INNER_MULTI_QUEUE_OFFSET" not in properties_of(parts.records("T")[1])
    numbered = message("T", properties=text(a="b", INNER_MULTI_QUEUE_OFFSET="5"))
    numbered.properties.scan()
    enter_light_queues(numbered)
    assert numbered.properties.text == text(a="b")


@pytest.mark.parametrize(
    "names",
    ["a", "%LMQ%a,b", "%LMQ%a/../b", "%LMQ%a,%LMQ%a", "%LMQ%" + "x" * 251, ",".join(f"%LMQ%{n}" for n in range(1025))],
    ids=["no light queue", "one is none", "slash", "twice", "long", "many"],
)
def test_lists_that_are_refused(parts: Parts, names: str) -> None:
    assert parts.answer(listing(names)).code == codes.MESSAGE_ILLEGAL
    assert parts.store.max_queue_offset("T", 0) == 0


def test_elements_of_a_batch_enter_them_too(parts: Parts) -> None:
    elements = [
        BatchMessage(0, b"%d" % number, text(INNER_MULTI_DISPATCH=names, INNER_MULTI_QUEUE_OFFSET="9").encode())
        for number, names in enumerate(["%LMQ%a", "%LMQ%b", "%LMQ%a,%LMQ%b"])
    ]
    assert parts.answer(send_request(body=encode_batch(elements), m="true")).code == codes.SUCCESS
    assert bodies(parts, "%LMQ%a") == [b"0", b"2"]
    assert properties_of(parts.records("%LMQ%b")[1])["INNER_MULTI_QUEUE_OFFSET"] == "1,1"


@pytest.mark.parametrize(
    ("topic", "enters"),
    [
        ("T", True),
        ("%RETRY%g", False),
        ("%DLQ%g", False),
        ("SCHEDULE_TOPIC_XXXX", False),
        ("rmq_sys_wheel_timer", False),
        ("RMQ_SYS_TRANS_HALF_TOPIC", False),
        ("TRANS_CHECK_MAX_TIME_TOPIC", False),
        ("%LMQ%a", False),
    ],
    ids=lambda value: str(value).replace("%", ""),
)
def test_only_ordinary_topics_enter_light_queues(topic: str, enters: bool) -> None:
    assert (light_queues(topic, "%LMQ%a") is not None) == enters
    assert refusal("T", ["%LMQ%a"]) == ""


def test_a_delayed_message_enters_when_it_is_delivered(parts: Parts) -> None:
    parts.answer(listing("%LMQ%a", DELAY="1"))
    assert parts.store.max_queue_offset("%LMQ%a", 0) == 0
    (waiting,) = parts.records("SCHEDULE_TOPIC_XXXX")
    parts.writer.put(again(waiting, "T", 0, waiting.properties.decode()), NOW)
    parts.settle()
    assert bodies(parts, "%LMQ%a") == [waiting.body]


def test_topics_and_groups_of_light_queues_are_there_without_being_made(parts: Parts) -> None:
    topic = parts.topics.get("%LMQ%x")
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)
    parts.topics.put(TopicConfig("%LMQ%x", 8, 8), NOW)
    group = parts.groups.find("%LMQ%g", NOW)
    assert group is not None
    assert group.retry_max_times == 16
    parts.groups.put(SubscriptionGroupConfig("%LMQ%g"), NOW)
    assert "%LMQ%x" not in parts.topics.table
    assert "%LMQ%g" not in parts.groups.table
    assert parts.answer(send_request("%LMQ%x")).code == codes.SUCCESS
    assert parts.answer(send_request("%LMQ%x", e="1")).code == codes.INVALID_PARAMETER
    assert parts.pulled(topic="%LMQ%x", queueId=1).code == codes.INVALID_PARAMETER
    assert parts.records("%LMQ%x")[0].topic == "%LMQ%x"
    assert b"LMQ" not in parts.topics.encode() + parts.groups.encode()


def test_without_lmq_they_are_names_like_others(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    assert parts.topics.get("%LMQ%x") is None
    parts.answer(listing("anything/goes"))
    assert properties_of(parts.records("T")[0])["INNER_MULTI_DISPATCH"] == "anything/goes"
    assert parts.store.topics_in_queues() == ["T"]
    parts.close()


def test_a_quota_bounds_them(tmp_path: Path) -> None:
    parts = Parts(tmp_path, **ON, enable_lmq_quota=True, max_lmq_consume_queue_num=2)
    for name in ("%LMQ%a", "%LMQ%b", "%LMQ%a"):
        assert parts.answer(listing(name)).code == codes.SUCCESS
    for refused in (listing("%LMQ%a,%LMQ%c"), send_request("%LMQ%c")):
        answer = parts.answer(refused)
        assert answer.code == codes.LMQ_QUOTA_EXCEEDED and "exceeds the limit" in str(answer.remark)
    assert parts.answer(send_request("%LMQ%a")).code == codes.SUCCESS
    parts.close()


def test_offsets_of_light_groups_have_no_queue_and_a_table_of_their_own(parts: Parts) -> None:
    offsets = parts.offsets
    assert (offsets.persist_name, offsets.persisted_before) == ("lmqConsumerOffset", "consumerOffset")
    offsets.commit("%LMQ%g", "%LMQ%a", 3, 7, NOW)
    offsets.commit("g", "%LMQ%a", 0, 5, NOW)
    assert (offsets.query("%LMQ%g", "%LMQ%a", 0), offsets.query("g", "%LMQ%a", 0)) == (7, 5)
    stored = json.loads(offsets.encode())
    assert stored["lmqOffsetTable"] == {"%LMQ%a@%LMQ%g": 7}
    assert stored["offsetTable"] == {"%LMQ%a@g": {"0": 5}}
    again = ConsumerOffsets(parts.effects, True)
    again.load(offsets.encode())
    assert again.encode() == offsets.encode()
    assert again.query("%LMQ%g", "%LMQ%a", 9) == 7


def test_pulls_of_light_queues_count_together(parts: Parts) -> None:
    parts.answer(listing("%LMQ%a,%LMQ%b"))
    parts.pulled(topic="%LMQ%a")
    parts.pulled(topic="%LMQ%b", consumerGroup="%LMQ%g")
    assert sorted(parts.stats.group_gets) == ["%LMQ%@%LMQ%", "%LMQ%@g"]
