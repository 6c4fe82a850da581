"""PULL: every check in order, every status of the store as an answer, and what is held."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Reply
from bolide.broker.pull.pull import FILTER_MS
from bolide.broker.tables.clients import Client
from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.broker.tables.groups import SubscriptionGroupConfig
from bolide.broker.tables.topic_config import TopicConfig
from bolide.layout.hashes import java_hash
from bolide.layout.record import decode_records
from bolide.remoting import codes
from bolide.remoting.bodies.clients import ConsumerData, SubscriptionData
from bolide.remoting.command import Command
from bolide.remoting.damaged_answer import names_damage
from bolide.remoting.response_bytes import PullResponse
from tests.broker.parts import NOW, PEER, Parts, held_of, reply_of, send_request, text
from tests.store.parts import TracedFiles


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    made = Parts(tmp_path)
    yield made
    made.close()


def fill(parts: Parts, count: int = 5, tags: str = "") -> None:
    for number in range(count):
        parts.answer(send_request(body=b"%d" % number, properties=text(TAGS=tags) if tags else ""))


def bodies(answer: Command) -> list[bytes]:
    return [record.body for record in decode_records(answer.body)]


def offsets(answer: Command) -> tuple[int, int, int]:
    ext = answer.ext()
    return int(ext["nextBeginOffset"]), int(ext["minOffset"]), int(ext["maxOffset"])


def test_records_are_given_from_the_offset_on(parts: Parts) -> None:
    fill(parts)
    answer = parts.pulled(offset=2)
    assert (answer.code, answer.remark, bodies(answer)) == (0, "FOUND", [b"2", b"3", b"4"])
    assert offsets(answer) == (5, 0, 5) and answer.ext()["suggestWhichBrokerId"] == "0"
    assert bodies(parts.pulled(maxMsgNums=1)) == [b"0"]


@pytest.mark.parametrize(
    ("field", "count"),
    [("1048576", 50), ("800", 4), ("1", 1), ("0", 32), ("-5", 32), ("", 32), ("many", 32), ("2147483648", 32)],
)
def test_a_bulk_pull_gets_what_it_takes_and_other_pulls_the_usual(parts: Parts, field: str, count: int) -> None:
    fill(parts, 50)
    assert 4 * len(parts.pulled(maxMsgNums=1).body) <= 800 < 5 * len(parts.pulled(maxMsgNums=1).body)
    assert len(bodies(parts.pulled(maxMsgNums=1000, bolideBulkBytes=field))) == count
    assert len(bodies(parts.pulled(maxMsgNums=1000))) == 32
    assert len(bodies(parts.pulled(maxMsgNums=7, bolideBulkBytes=field))) == min(7, count)


def test_pull_with_class_filter_is_refused(parts: Parts) -> None:
    fill(parts)
    answer = parts.pulled(sys_flag=0x4 | 0x8)
    assert (answer.code, answer.body) == (codes.SYSTEM_ERROR, b"")
    assert "the subscription to T names a Java class as its filter" in str(answer.remark)
    assert "SQL92" in str(answer.remark)


@pytest.mark.parametrize(("size", "buffers"), [(1, 1), (20_000, 3)], ids=["small", "large"])
def test_small_records_are_one_buffer_and_large_ones_the_very_bytes_that_were_read(
    tmp_path: Path, size: int, buffers: int
) -> None:
    files = TracedFiles()
    parts = Parts(tmp_path, files)
    for number in range(6):
        parts.answer(send_request(body=b"%d" % number * size, e=str(number % 2)))
    outcome = parts.pull()
    assert isinstance(outcome, Reply) and isinstance(outcome.response, PullResponse)
    assert [bodies(reply_of(outcome)), len(outcome.response.body)] == [[b"0" * size, b"2" * size, b"4" * size], buffers]
    if buffers > 1:
        for piece in outcome.response.body:
            files.source(piece)
    parts.close()


@pytest.mark.parametrize(
    ("queue", "offset", "code", "status", "next_offset"),
    [
        (1, 0, codes.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", 0),
        (1, 7, codes.PULL_OFFSET_MOVED, "NO_MESSAGE_IN_QUEUE", 0),
        (0, 5, codes.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 5),
        (0, 6, codes.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 5),
        (0, -1, codes.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", 0),
    ],
)
def test_offsets_without_records(
    parts: Parts, queue: int, offset: int, code: int, status: str, next_offset: int
) -> None:
    fill(parts)
    answer = parts.pulled(offset=offset, queueId=queue)
    assert (answer.code, answer.remark, offsets(answer)[0]) == (code, status, next_offset)


def test_tags_filter_by_hash_and_move_the_offset(parts: Parts) -> None:
    fill(parts, 2, "red")
    fill(parts, 2, "blue")
    answer = parts.pulled(subscription="blue || green")
    assert bodies(answer) == [b"0", b"1"] and offsets(answer)[0] == 4
    answer = parts.pulled(subscription="green")
    assert (answer.code, answer.remark) == (codes.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
    assert offsets(answer)[0] == 4


def test_an_empty_poll_is_held_only_when_asked_to(parts: Parts) -> None:
    fill(parts)
    assert parts.pulled(offset=5).code == codes.PULL_NOT_FOUND
    hold = held_of(parts.pull(offset=5, sys_flag=6, suspend=15000, subscription="red"))
    held = hold.waiter
    assert held.records is not None
    assert (held.key, held.records.offset, held.deadline) == (("T", 0), 5, NOW + 15000)
    assert held.records.tag_codes == {java_hash("red")}
    again = held.again(NOW + 15000)
    assert isinstance(again, object) and not hasattr(again, "held")


def test_only_not_found_is_held(parts: Parts) -> None:
    fill(parts)
    assert parts.pulled(offset=9, sys_flag=6, suspend=15000).code == codes.PULL_OFFSET_MOVED
    assert parts.pulled(offset=0, sys_flag=6, suspend=15000).code == 0


def test_short_polling_holds_for_its_own_time(tmp_path: Path) -> None:
    parts = Parts(tmp_path, long_polling_enable=False)
    fill(parts)
    assert held_of(parts.pull(offset=5, sys_flag=6, suspend=15000)).waiter.deadline == NOW + 1000
    parts.close()


def test_the_first_pass_commits_the_offset_and_a_wake_up_does_not(parts: Parts) -> None:
    fill(parts)
    held = held_of(parts.pull(offset=5, sys_flag=7, suspend=100, commitOffset=3)).waiter
    assert parts.offsets.query("g", "T", 0) == 3
    parts.offsets.commit("g", "T", 0, 4, NOW)
    held.again(NOW)
    assert parts.offsets.query("g", "T", 0) == 4
    parts.pulled(offset=0, sys_flag=4, commitOffset=5)  # does not ask for it
    assert parts.offsets.query("g", "T", 0) == 4


def test_a_pull_does_not_move_the_offsets_of_a_system_group(parts: Parts) -> None:
    fill(parts)
    group = "CID_RMQ_SYS_TRANS"
    assert parts.pulled(offset=0, sys_flag=7, commitOffset=3, consumerGroup=group).code == 0
    assert parts.offsets.query(group, "T", 0) == -1


def test_a_pending_reset_answers_once(parts: Parts) -> None:
    fill(parts)
    parts.offsets.assign_reset("g", "T", 0, 1, NOW)
    answer = parts.pulled(offset=5)
    assert (answer.code, answer.remark, offsets(answer)) == (codes.PULL_OFFSET_MOVED, "OFFSET_RESET", (1, 0, 5))
    assert parts.pulled(offset=1).code == 0


def refuse_cases() -> list[tuple[dict[str, Any], dict[str, Any], int]]:
    return [
        ({"broker_permission": 2}, {}, codes.NO_PERMISSION),
        ({"lite_pull_message_enable": False}, {"code": codes.LITE_PULL_MESSAGE}, codes.NO_PERMISSION),
        ({"auto_create_subscription_group": False}, {}, codes.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({}, {"topic": "Unknown"}, codes.TOPIC_NOT_EXIST),
        ({}, {"queueId": 4}, codes.INVALID_PARAMETER),
        ({}, {"queueId": -1}, codes.INVALID_PARAMETER),
        ({}, {"topic": "Closed"}, codes.NO_PERMISSION),
        ({}, {"liteTopic": "chat"}, codes.INVALID_PARAMETER),
        ({}, {"consumerGroup": "stopped"}, codes.NO_PERMISSION),
        ({"enable_property_filter": True}, {"expressionType": "SQL92", "subscription": "a >"}, 23),
        ({}, {"expressionType": "SQL92", "subscription": "a >"}, codes.SYSTEM_ERROR),
        ({}, {"subscription": "||"}, codes.SUBSCRIPTION_PARSE_FAILED),
        ({}, {"expressionType": "", "subscription": ""}, codes.SUBSCRIPTION_PARSE_FAILED),
        ({}, {"expressionType": "SQL92", "subscription": "a > 1"}, codes.SYSTEM_ERROR),
        ({}, {"sys_flag": 0}, codes.SUBSCRIPTION_NOT_EXIST),
    ]


@pytest.mark.parametrize(("settings", "fields", "code"), refuse_cases())
def test_refusals(tmp_path: Path, settings: dict[str, Any], fields: dict[str, Any], code: int) -> None:
    parts = Parts(tmp_path, **settings)
    parts.topics.put(TopicConfig("T", 4, 4), NOW)
    parts.topics.put(TopicConfig("Closed", 4, 4, 2), NOW)
    stopped = SubscriptionGroupConfig("stopped")
    stopped.consume_enable = False
    parts.groups.put(stopped, NOW)
    assert parts.pulled(**fields).code == code
    parts.close()


def subscribe(parts: Parts, sub_version: int = 5, model: str = "CLUSTERING", **fields: Any) -> None:
    subscription = SubscriptionData(topic="T", sub_string="*", sub_version=sub_version, **fields)
    data = ConsumerData(group_name="g", message_model=model, subscription_data_set=[subscription])
    parts.clients.register_consumer(data, Client(Channel(2, PEER, "x"), "c", 0, 0, NOW))


def test_without_a_subscription_in_the_request_the_heartbeat_decides(parts: Parts) -> None:
    fill(parts)
    subscribe(parts)
    assert parts.pulled(sys_flag=0, subVersion=5).code == 0
    assert parts.pulled(sys_flag=0, subVersion=6).code == codes.SUBSCRIPTION_NOT_LATEST
    assert parts.pulled(sys_flag=0, topic="TBW102").code == codes.SUBSCRIPTION_NOT_EXIST


def test_a_group_that_may_not_broadcast(parts: Parts) -> None:
    fill(parts)
    subscribe(parts, model="BROADCASTING")
    assert parts.pulled(sys_flag=0, subVersion=5).code == 0
    config = SubscriptionGroupConfig("g")
    config.consume_broadcast_enable = False
    parts.groups.put(config, NOW)
    assert parts.pulled(sys_flag=0, subVersion=5).code == codes.NO_PERMISSION


def test_sql_is_evaluated_on_the_properties_where_it_is_enabled(tmp_path: Path) -> None:
    parts = Parts(tmp_path, enable_property_filter=True)
    for number in range(4):
        parts.answer(send_request(body=b"%d" % number, properties=text(n=str(number))))
    answer = parts.pulled(expressionType="SQL92", subscription="n >= 2")
    assert bodies(answer) == [b"2", b"3"] and offsets(answer)[0] == 4
    held = held_of(parts.pull(offset=4, sys_flag=6, suspend=9, expressionType="SQL92", subscription="n = 1")).waiter
    assert held.records is not None and held.records.predicate is not None
    passes = held.records.predicate
    assert passes(b"n\x011\x02") and not passes(b"n\x012\x02") and not passes(b"n\x01x\x02")
    parts.close()


def test_a_slave_corrects_no_offsets(tmp_path: Path) -> None:
    parts = Parts(tmp_path, broker_role="SLAVE", broker_id=1, slave_read_enable=True)
    parts.topics.put(TopicConfig("T", 4, 4), NOW)
    answer = parts.pulled(offset=9)
    assert (answer.code, offsets(answer)[0]) == (codes.PULL_RETRY_IMMEDIATELY, 9)
    parts.close()


def test_a_slave_that_lacks_a_queue_file_leads_nobody_past_it(tmp_path: Path) -> None:
    master = Parts(tmp_path)
    fill(master)
    master.close()
    slave: dict[str, Any] = {"broker_role": "SLAVE", "broker_id": 1, "slave_read_enable": True}
    for role, following in (({}, 300_000), (slave, 2)):
        parts = Parts(tmp_path, **role)
        parts.topics.put(TopicConfig("T", 4, 4), NOW)
        path = tmp_path / f"consumequeue/T/0/{0:020d}"
        whole = path.read_bytes()
        path.write_bytes(b"")
        answer = parts.pulled(offset=2, sys_flag=4)
        assert (answer.remark, offsets(answer)[0]) == ("OFFSET_FOUND_NULL", following)
        path.write_bytes(whole)
        parts.close()


def test_a_group_that_was_kept_from_the_topic_is_refused(parts: Parts) -> None:
    fill(parts)
    data = ConsumerData(group_name="g", consume_type="CONSUME_PASSIVELY", message_model="CLUSTERING")
    data.subscription_data_set = [SubscriptionData(topic="T", sub_string="*")]
    parts.clients.register_consumer(data, Client(parts.channel, "c", 0, 513, NOW))
    parts.groups.forbid_read("g", "T", True, NOW)
    answer = parts.pulled(sys_flag=0)
    assert (answer.code, answer.ext()) == (codes.NO_PERMISSION, {"forbiddenType": "5"})
    assert parts.pulled(sys_flag=4).code == 0  # as in Java: a pull that brings its subscription is not looked at
    parts.groups.forbid_read("g", "T", False, NOW)
    assert parts.pulled(sys_flag=0).code == 0


def test_an_answer_tells_the_flags_of_topic_and_group(parts: Parts) -> None:
    parts.topics.put(TopicConfig("T", 4, 4, topic_sys_flag=2), NOW)
    group = SubscriptionGroupConfig("g")
    group.group_sys_flag = 1
    parts.groups.put(group, NOW)
    answer = parts.pulled()
    assert (answer.ext()["topicSysFlag"], answer.ext()["groupSysFlag"]) == ("2", "1")


def test_where_the_next_pull_will_begin_is_kept(parts: Parts) -> None:
    fill(parts)
    parts.pulled(offset=0, sys_flag=4)
    assert parts.offsets.pulled("g", "T", 0) == 5
    parts.pulled(offset=99, sys_flag=4)
    assert json.loads(parts.offsets.encode())["pullOffsetTable"] == {"T@g": {"0": 5}}
    again = ConsumerOffsets(parts.effects)
    again.load(parts.offsets.encode())
    assert again.pulled("g", "T", 0) == 5


def test_a_filter_looks_at_records_for_a_short_time_and_tells_where_to_go_on(tmp_path: Path) -> None:
    parts = Parts(tmp_path, enable_property_filter=True)
    for number in range(60):
        parts.answer(send_request(properties=text(n=str(number)), body=b"%d" % number))
    passed = [0]

    def clock() -> int:
        passed[0] += FILTER_MS // 3
        return passed[0]

    parts.pull_service.clock = clock
    sql = {"expressionType": "SQL92"}
    # The clock is looked at once before, and then at every eighth record: the fourth look says that it is time.
    none = parts.pulled(**sql, subscription="n = 59")
    assert (none.code, none.remark, offsets(none)[0]) == (codes.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", 25)
    some = parts.pulled(offset=25, **sql, subscription="n = 30 OR n = 59")
    assert (some.code, bodies(some), offsets(some)[0]) == (0, [b"30"], 50)
    last = parts.pulled(offset=50, **sql, subscription="n = 59")
    assert (last.code, bodies(last), offsets(last)[0]) == (0, [b"59"], 60)
    parts.pull_service.clock = lambda: passed.append(0) or FILTER_MS * len(passed)
    slow = parts.pulled(**sql, subscription="n = 11")
    assert offsets(slow)[0] == 1  # one record further at least
    parts.close()


def test_pull_of_a_damaged_message_fails_and_names_it(parts: Parts) -> None:
    fill(parts)
    parts.damage("T", 3)
    assert bodies(parts.pulled()) == [b"0", b"1", b"2"]
    answer = parts.pulled(offset=3)
    assert answer.code == codes.SYSTEM_ERROR
    assert "the message at offset 3 of queue T:0 is damaged" in (answer.remark or "")
    assert names_damage(answer.ext())
    assert parts.store.maintenance.take_problem() == answer.remark
