"""CONSUMER_SEND_MSG_BACK: every row of its table, and what the copy is made of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.broker.send.retries import RetryService
from bolide.broker.tables.groups import SubscriptionGroupConfig
from bolide.broker.tables.topic_config import TopicConfig
from bolide.layout.message_id import offset_message_id
from bolide.layout.names import SCHEDULE_TOPIC
from bolide.layout.record import Record
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.store.errors import RecordDamaged
from tests.broker.parts import NOW, STORE, Parts, properties_of, reply_of, send_request, text


class Retrying(Parts):
    """The parts with send-backs."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.service = RetryService(self.options, self.store, self.writer, self.topics, self.groups, self.stats)

    def stored(self, **fields: str) -> Record:
        """Send one message and return its record."""
        sent = text(UNIQ_KEY="U", TAGS="a", KEYS="k")
        assert self.answer(send_request(properties=sent, **fields)).code == 0
        return self.records(fields.get("b", "T"), int(fields.get("e", "0")))[-1]

    def back(self, record: Record, level: int = 0, **fields: str) -> Command:
        ext = {"offset": str(record.physical_offset), "group": "g", "delayLevel": str(level), **fields}
        version = int(ext.pop("version", "513"))
        command = make_request(codes.CONSUMER_SEND_MSG_BACK, 1, ext, version=version)
        answer = reply_of(self.service.handlers()[codes.CONSUMER_SEND_MSG_BACK](self.channel, command, NOW))
        self.settle()
        return answer

    def levels(self) -> list[int]:
        """How many messages wait in each level of the schedule topic."""
        return [len(self.records(SCHEDULE_TOPIC, queue_id)) for queue_id in range(18)]


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Retrying]:
    made = Retrying(tmp_path)
    made.topics.put(TopicConfig("T", 4, 4), NOW)
    yield made
    made.close()


def test_a_copy_waits_for_the_retry_topic(parts: Retrying) -> None:
    record = parts.stored()
    assert parts.back(record).code == codes.SUCCESS
    (copy,) = parts.records(SCHEDULE_TOPIC, 2)  # level 3: 10 seconds
    assert (copy.body, copy.flag, copy.sys_flag) == (record.body, record.flag, record.sys_flag)
    assert (copy.born_timestamp, copy.born_host) == (record.born_timestamp, record.born_host)
    assert copy.reconsume_times == 1
    stored = properties_of(copy)
    assert stored["REAL_TOPIC"] == "%RETRY%g" and stored["REAL_QID"] == "0"
    assert stored["RETRY_TOPIC"] == "T"
    assert stored["ORIGIN_MESSAGE_ID"] == offset_message_id(STORE, record.physical_offset)
    assert (stored["WAIT"], stored["DELAY"]) == ("false", "3")
    assert (stored["TAGS"], stored["KEYS"], stored["UNIQ_KEY"]) == ("a", "k", "U")
    retry = parts.topics.get("%RETRY%g")
    assert retry is not None and (retry.read_queue_nums, retry.write_queue_nums, retry.perm) == (1, 1, 6)


def test_each_further_attempt_waits_one_level_longer(parts: Retrying) -> None:
    for times in range(3):
        assert parts.back(parts.stored(j=str(times))).code == codes.SUCCESS
    assert parts.levels()[2:5] == [1, 1, 1]
    assert parts.back(parts.stored(), level=1).code == codes.SUCCESS
    assert parts.levels()[0] == 1


def test_the_second_copy_keeps_where_it_came_from(parts: Retrying) -> None:
    first = parts.stored()
    parts.back(first)
    (copy,) = parts.records(SCHEDULE_TOPIC, 2)
    parts.back(copy)
    (second,) = parts.records(SCHEDULE_TOPIC, 3)
    assert properties_of(second)["RETRY_TOPIC"] == "T"
    assert properties_of(second)["ORIGIN_MESSAGE_ID"] == offset_message_id(STORE, first.physical_offset)
    assert second.reconsume_times == 2


@pytest.mark.parametrize(
    ("times", "level", "fields"),
    [
        ("16", 0, {}),
        ("0", -1, {}),
        ("3", 0, {"maxReconsumeTimes": "3"}),
        ("16", 0, {"maxReconsumeTimes": "99", "version": "120"}),  # a client too old to have a say
    ],
)
def test_dead_letters(parts: Retrying, times: str, level: int, fields: dict[str, str]) -> None:
    assert parts.back(parts.stored(j=times), level, **fields).code == codes.SUCCESS
    (letter,) = parts.records("%DLQ%g")
    assert letter.reconsume_times == int(times) + 1
    assert sum(parts.levels()) == 0
    dead = parts.topics.get("%DLQ%g")
    assert dead is not None and (dead.read_queue_nums, dead.write_queue_nums, dead.perm) == (1, 1, 6)


@pytest.mark.parametrize(
    ("times", "fields"), [("15", {}), ("2", {"maxReconsumeTimes": "3"}), ("16", {"maxReconsumeTimes": "99"})]
)
def test_attempt_below_the_limit_is_retried(parts: Retrying, times: str, fields: dict[str, str]) -> None:
    assert parts.back(parts.stored(j=times), **fields).code == codes.SUCCESS
    assert parts.records("%DLQ%g") == [] and sum(parts.levels()) == 1


def test_the_group_says_how_often(parts: Retrying) -> None:
    group = SubscriptionGroupConfig("g")
    group.retry_max_times = 1
    parts.groups.put(group, NOW)
    parts.back(parts.stored())
    parts.back(parts.stored(j="1"))
    assert len(parts.records("%DLQ%g")) == 1 and sum(parts.levels()) == 1


def test_a_group_without_retry_queues_drops_it(parts: Retrying) -> None:
    group = SubscriptionGroupConfig("g")
    group.retry_queue_nums = 0
    parts.groups.put(group, NOW)
    assert parts.back(parts.stored()).code == codes.SUCCESS
    assert sum(parts.levels()) == 0 and parts.records("%DLQ%g") == []


def test_no_record_no_copy(parts: Retrying) -> None:
    record = parts.stored()
    record.physical_offset += 1
    assert parts.back(record).code == codes.SYSTEM_ERROR


def test_a_retry_topic_nobody_may_write(parts: Retrying) -> None:
    record = parts.stored()
    parts.topics.put(TopicConfig("%RETRY%g", 1, 1, 4), NOW)
    assert parts.back(record).code == codes.NO_PERMISSION


def test_an_unknown_group_and_a_broker_that_takes_nothing(tmp_path: Path) -> None:
    closed = Retrying(tmp_path / "a", auto_create_subscription_group=False)
    record = closed.stored()
    assert closed.back(record).code == codes.SUBSCRIPTION_GROUP_NOT_EXIST
    closed.close()
    silent = Retrying(tmp_path / "b")
    record = silent.stored()
    silent.options = type(silent.options).of(flush_disk_type="ASYNC_FLUSH", broker_permission=4)
    silent.service.configure(silent.options)
    assert silent.back(record).code == codes.NO_PERMISSION
    silent.close()


def test_damaged_message_gets_no_copy(parts: Retrying) -> None:
    record = parts.stored()
    parts.damage("T", 0)
    with pytest.raises(RecordDamaged, match="queue 0, offset 0, does not match its CRC"):
        parts.back(record)
    assert parts.levels() == [0] * 18
