"""Counters by topic and group: what raises them, and what is told of a minute, an hour and a day."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.core.outcome import Cold
from bolide.broker.core.stats import count
from bolide.broker.operator.fall_behind import FallBehind
from bolide.broker.operator.group_admin import GroupAdminService
from bolide.broker.operator.topic_admin import TopicAdminService
from bolide.broker.operator.topic_stats import TopicStatsService
from bolide.broker.send.retries import RetryService
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_body
from bolide.remoting.bodies.stats import BrokerStatsData, BrokerStatsItem
from bolide.remoting.command import make_request
from bolide.store.disk.files import Files
from tests.broker.parts import NOW, Parts, reply_of, send_request, text
from tests.store.parts import ColdFiles


class Counting(Parts):
    def __init__(self, folder: Path, files: Files | None = None) -> None:
        super().__init__(folder, files)
        self.topic_stats = TopicStatsService(self.options, self.stats, FallBehind(self.store, self.offsets), NOW)
        self.retries = RetryService(self.options, self.store, self.writer, self.topics, self.groups, self.stats)
        self.now = NOW

    def pass_time(self, milliseconds: int) -> None:
        stop = self.now + milliseconds
        while (due := self.topic_stats.due(self.now)) is not None and due <= stop:
            self.now = due
            self.topic_stats.tick(due, 1000)
        self.now = stop

    def view(self, name: str, key: str) -> BrokerStatsData:
        command = make_request(codes.VIEW_BROKER_STATS_DATA, 1, {"statsName": name, "statsKey": key})
        answer = reply_of(self.topic_stats.handlers()[command.code](self.channel, command, self.now))
        assert answer.code == 0, answer.remark
        return decode_body(answer.body, BrokerStatsData)

    def sums(self, name: str, key: str) -> tuple[int, int, int]:
        data = self.view(name, key)
        return data.stats_minute.sum, data.stats_hour.sum, data.stats_day.sum


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Counting]:
    made = Counting(tmp_path)
    yield made
    made.close()


def test_puts_and_gets_are_counted_by_topic_and_group(parts: Counting) -> None:
    for _ in range(6):
        parts.answer(send_request())
    size = parts.store.end_offset
    parts.answer(send_request("U", properties=text(DELAY="3")))
    parts.pulled(maxMsgNums=4)
    parts.pulled(maxMsgNums=4)
    parts.pass_time(10_000)
    minute = parts.view("TOPIC_PUT_NUMS", "T").stats_minute
    assert (minute.sum, minute.avgpt, minute.tps) == (6, 1.0, 0.6)
    assert parts.sums("TOPIC_PUT_SIZE", "T")[0] == size
    assert parts.sums("TOPIC_PUT_NUMS", "SCHEDULE_TOPIC_XXXX")[0] == 1
    got = parts.view("GROUP_GET_NUMS", "T@g").stats_minute
    assert (got.sum, got.avgpt) == (8, 4.0)
    assert parts.sums("GROUP_GET_SIZE", "T@g")[0] == size // 6 * 8
    assert parts.sums("BROKER_PUT_NUMS", "DefaultCluster")[0] == 7
    assert parts.sums("BROKER_GET_NUMS", "DefaultCluster")[0] == 8


def test_latency_is_the_wait_for_the_disk(tmp_path: Path) -> None:
    files = ColdFiles()
    parts = Counting(tmp_path, files)
    for _ in range(2):
        parts.answer(send_request())
    with pytest.raises(AssertionError, match="<GROUP_GET_LATENCY> <0@T@g> not exist"):
        parts.view("GROUP_GET_LATENCY", "0@T@g")
    parts.pulled(maxMsgNums=1)
    assert parts.view("GROUP_GET_LATENCY", "0@T@g").stats_minute == BrokerStatsItem(0, 0.0, 0.0)
    assert parts.stats.disk_waits == {}, "a queue that is read from memory costs nothing"
    files.cold = True
    parts.store.log.tail.clear()
    cold = parts.pull(offset=1)
    assert isinstance(cold, Cold)
    again = cold.again(NOW + 30)
    assert isinstance(again, Cold), "what was loaded has left memory again"
    files.cold = False
    assert reply_of(again.again(NOW + 50)).code == codes.SUCCESS
    minute = parts.view("GROUP_GET_LATENCY", "0@T@g").stats_minute
    assert (minute.sum, minute.avgpt) == (50, 50.0)
    parts.pulled(NOW + 60, maxMsgNums=1)
    minute = parts.view("GROUP_GET_LATENCY", "0@T@g").stats_minute
    assert (minute.sum, minute.avgpt) == (50, 25.0), "50 ms over two pulls"
    for key in ("T@g", "1@T@g", "0@T@h", "@@", ""):
        with pytest.raises(AssertionError, match="not exist"):
            parts.view("GROUP_GET_LATENCY", key)
    parts.pulled(NOW + 70, consumerGroup="h")
    assert parts.view("GROUP_GET_LATENCY", "0@T@h").stats_minute == BrokerStatsItem(0, 0.0, 0.0)
    assert set(parts.stats.disk_waits) == {"0@T@g"}
    parts.close()


def test_fall_behind_follows_the_last_pull(parts: Counting) -> None:
    def behind(name: str, key: str = "0@T@g") -> int:
        return parts.sums(name, key)[0]

    ends = []
    for number in range(3):
        parts.answer(send_request(), NOW + number * 1000)
        ends.append(int(parts.store.end_offset))
    parts.now = NOW + 10_000
    with pytest.raises(AssertionError, match="<GROUP_GET_FALL_SIZE> <0@T@g> not exist"):
        behind("GROUP_GET_FALL_SIZE")
    parts.pulled(maxMsgNums=2)
    assert behind("GROUP_GET_FALL_SIZE") == ends[2] - ends[0]
    assert behind("GROUP_GET_FALL_TIME") == 9_000
    parts.pulled(offset=2)
    assert (behind("GROUP_GET_FALL_SIZE"), behind("GROUP_GET_FALL_TIME")) == (0, 0)
    for key in ("T@g", "x@T@g", "\u0663@T@g", "1@T@g", "0@T@h", "@@", ""):
        with pytest.raises(AssertionError, match="not exist"):
            behind("GROUP_GET_FALL_TIME", key)


def test_copied_records_are_not_counted_as_sent(parts: Counting) -> None:
    parts.stats.copied("T", 100)
    parts.stats.copied("T", 60)
    assert (parts.stats.put_messages, parts.stats.put_bytes) == (2, 160)
    assert parts.sums("BROKER_PUT_NUMS", "DefaultCluster") == (0, 0, 0)
    parts.answer(send_request())
    assert parts.sums("BROKER_PUT_NUMS", "DefaultCluster") == (1, 1, 1)
    assert parts.sums("TOPIC_PUT_NUMS", "T") == (1, 1, 1)
    parts.stats.forget_topic("T")
    assert parts.stats.topic_copies == {}


def test_send_back_counts_for_original_topic(parts: Counting) -> None:
    parts.answer(send_request())
    (record,) = parts.records("T")
    ext = {"group": "g", "offset": str(record.physical_offset), "delayLevel": "3"}
    command = make_request(codes.CONSUMER_SEND_MSG_BACK, 1, ext)
    assert reply_of(parts.retries.handlers()[codes.CONSUMER_SEND_MSG_BACK](parts.channel, command, NOW)).code == 0
    assert parts.sums("SNDBCK_PUT_NUMS", "T@g") == (1, 1, 1)


@pytest.mark.parametrize(("name", "key"), [("TOPIC_PUT_NUMS", "T"), ("NO_SUCH_NUMS", "T"), ("GROUP_GET_NUMS", "T@g")])
def test_unknown_statistic_is_an_error(parts: Counting, name: str, key: str) -> None:
    command = make_request(codes.VIEW_BROKER_STATS_DATA, 1, {"statsName": name, "statsKey": key})
    answer = reply_of(parts.topic_stats.handlers()[command.code](parts.channel, command, NOW))
    assert answer.code == codes.SYSTEM_ERROR
    assert answer.remark == f"The stats <{name}> <{key}> not exist"


def test_a_minute_an_hour_and_a_day_pass(parts: Counting) -> None:
    parts.answer(send_request())
    assert parts.sums("TOPIC_PUT_NUMS", "T") == (1, 1, 1)
    parts.pass_time(50_000)
    assert parts.sums("TOPIC_PUT_NUMS", "T") == (1, 1, 1)
    parts.pass_time(30_000)
    assert parts.sums("TOPIC_PUT_NUMS", "T") == (0, 1, 1)
    parts.pass_time(3_600_000)
    assert parts.sums("TOPIC_PUT_NUMS", "T") == (0, 0, 1)
    parts.answer(send_request())
    assert parts.sums("TOPIC_PUT_NUMS", "T") == (1, 1, 2)
    parts.pass_time(26 * 3_600_000)
    assert "T" not in parts.stats.topic_puts
    assert parts.sums("BROKER_PUT_NUMS", "DefaultCluster") == (0, 0, 0)


def test_a_deleted_topic_or_group_is_not_counted_any_more(parts: Counting) -> None:
    forget = [parts.stats.forget_topic]
    topics = TopicAdminService(parts.options, parts.store, parts.topics, parts.offsets, None, forget)
    groups = GroupAdminService(parts.options, parts.groups, parts.offsets, parts.clients, lambda: "", parts.stats)
    for topic in ("T", "S"):
        parts.answer(send_request(topic=topic))
        for group in ("g", "h"):
            count(parts.stats.group_gets, f"{topic}@{group}", 1, 1)
            count(parts.stats.send_backs, f"{topic}@{group}", 1, 1)
            count(parts.stats.disk_waits, f"3@{topic}@{group}", 1, 0)
    parts.pass_time(10_000)
    delete_topic = make_request(codes.DELETE_TOPIC_IN_BROKER, 1, {"topic": "T"})
    assert reply_of(topics.handlers()[delete_topic.code](parts.channel, delete_topic, parts.now)).code == 0
    assert (set(parts.stats.topic_puts), set(parts.stats.group_gets)) == ({"S"}, {"S@g", "S@h"})
    assert set(parts.stats.disk_waits) == {"3@S@g", "3@S@h"}
    delete_group = make_request(codes.DELETE_SUBSCRIPTIONGROUP, 1, {"groupName": "h"})
    assert reply_of(groups.handlers()[delete_group.code](parts.channel, delete_group, parts.now)).code == 0
    assert (set(parts.stats.group_gets), set(parts.stats.send_backs)) == ({"S@g"}, {"S@g"})
    assert set(parts.stats.disk_waits) == {"3@S@g"}
    parts.pass_time(10_000)
    assert sorted(key for looks in parts.topic_stats._looks for key in looks) == sorted(
        ["S", "S@g", "S@g", "3@S@g", *2 * [parts.options.place.broker_cluster_name]]
    )
