"""SEND: every check in order, what is stored of a message, where retries and delays go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Parked
from bolide.broker.tables.groups import SubscriptionGroupConfig
from bolide.broker.tables.topic_config import TopicConfig
from bolide.layout.message_id import encode_host
from bolide.remoting import codes
from bolide.remoting.bodies.base import MessageQueue
from bolide.store.background.running_flags import DISK_FULL, NOT_WRITABLE
from tests.broker.parts import NOW, PEER, STORE, Parts, properties_of, reply_of, send_request, text


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    made = Parts(tmp_path)
    yield made
    made.close()


def test_a_message_is_stored_with_what_the_broker_adds(parts: Parts) -> None:
    answer = parts.answer(send_request(properties=text(TAGS="a", UNIQ_KEY="U", KEYS="k1 k2", mine="1"), j="2"))
    ext = answer.ext()
    assert answer.code == 0 and answer.opaque == 9
    assert (ext["queueId"], ext["queueOffset"], ext["transactionId"]) == ("0", "0", "U")
    assert (ext["MSG_REGION"], ext["TRACE_ON"]) == ("DefaultRegion", "true")
    (record,) = parts.records("T")
    assert ext["msgId"] == STORE.hex().upper() + f"{record.physical_offset:016X}"
    assert (record.flag, record.born_timestamp, record.reconsume_times) == (5, 7, 2)
    assert (record.born_host, record.store_host, record.store_timestamp) == (PEER, STORE, NOW)
    assert properties_of(record) == {
        "TAGS": "a",
        "UNIQ_KEY": "U",
        "KEYS": "k1 k2",
        "mine": "1",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
    }


def test_the_answer_waits_for_the_end_of_the_record(parts: Parts) -> None:
    outcome = parts.send(send_request())
    assert isinstance(outcome, Parked) and outcome.wait
    assert outcome.offset == parts.store.end_offset
    unwaited = parts.send(send_request(properties=text(WAIT="false")))
    assert isinstance(unwaited, Parked) and not unwaited.wait


def test_a_missing_last_separator_and_a_missing_key_are_made_good(parts: Parts) -> None:
    answer = parts.answer(send_request(properties="TAGS\x01a"))
    (record,) = parts.records("T")
    properties = properties_of(record)
    assert properties["TAGS"] == "a"
    assert properties["UNIQ_KEY"] == answer.ext()["transactionId"] and len(properties["UNIQ_KEY"]) == 32
    assert record.properties.endswith(b"\x02")


def test_names_of_the_broker_are_replaced_and_transient_ones_dropped(parts: Parts) -> None:
    sent = text(UNIQ_KEY="U", CLUSTER="other", POP_CK="x", TRACE_ON="false", mine="1") + "__RMQ.TRANSIENT.A\x011\x02"
    parts.answer(send_request(properties=sent))
    (record,) = parts.records("T")
    assert properties_of(record) == {
        "UNIQ_KEY": "U",
        "mine": "1",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
    }
    assert record.properties.count(b"CLUSTER") == 1


def test_request_10_says_the_same_with_full_names(parts: Parts) -> None:
    ext = {
        "producerGroup": "pg",
        "topic": "T",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "1",
        "sysFlag": "0",
        "bornTimestamp": "7",
        "flag": "0",
    }
    command = send_request()
    command.code = codes.SEND_MESSAGE
    command.ext().clear()
    command.ext().update(ext)
    assert parts.answer(command).code == 0
    assert len(parts.records("T", 1)) == 1


REFUSALS = [
    ("", {}, codes.INVALID_PARAMETER, "The specified topic is blank."),
    ("a b", {}, codes.INVALID_PARAMETER, "The specified topic: a b, contains illegal characters, allowing only ^[%|"),
    ("t" * 128, {}, codes.INVALID_PARAMETER, "t, is longer than topic max length: 127"),
    ("%RETRY%" + "g" * 249, {}, codes.INVALID_PARAMETER, "g, and it's longer than topic max length: 255"),
    ("SCHEDULE_TOPIC_XXXX", {}, codes.NO_PERMISSION, "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden."),
    ("rmq_sys_wheel_timer", {}, codes.NO_PERMISSION, "Sending message to topic[rmq_sys_wheel_timer] is forbidden."),
    ("RMQ_SYS_TRANS_HALF_TOPIC", {}, codes.NO_PERMISSION, "Sending message to topic[RMQ_SYS_TRANS_HALF_TOPIC] is"),
    ("New", {"c": "NoTemplate"}, codes.TOPIC_NOT_EXIST, "topic[New] not exist, apply first please!"),
    ("T", {"e": "4"}, codes.INVALID_PARAMETER, "request queueId[4] is illegal, topic T has 4 write queues"),
]


@pytest.mark.parametrize(("topic", "fields", "code", "says"), REFUSALS, ids=range(len(REFUSALS)))
def test_refusals(parts: Parts, topic: str, fields: dict[str, str], code: int, says: str) -> None:
    parts.topics.put(TopicConfig("T", 4, 4), NOW)
    answer = parts.answer(send_request(topic, **fields))
    assert answer.code == code and says in str(answer.remark)
    assert answer.ext() == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
    assert parts.store.end_offset == 0


@pytest.mark.parametrize(
    ("body", "properties", "code"),
    [
        (b"x" * (4 * 1024 * 1024 + 1), "", codes.MESSAGE_ILLEGAL),
        (b"x", text(long="v" * 32768), codes.MESSAGE_ILLEGAL),
        (b"x", text(INNER_NUM="2"), codes.MESSAGE_ILLEGAL),
        (b"x", text(DELAY="soon"), codes.SYSTEM_ERROR),
    ],
    ids=["body", "properties", "inner batch", "level"],
)
def test_illegal_message_is_rejected(parts: Parts, body: bytes, properties: str, code: int) -> None:
    answer = parts.answer(send_request(body=body, properties=properties))
    assert (answer.code, answer.ext()) == (code, {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"})
    assert str(answer.remark).startswith("the message is illegal, ") == (code == codes.MESSAGE_ILLEGAL)


def test_properties_may_be_as_long_as_an_int16_says(parts: Parts) -> None:
    """With what the broker adds: 32767 bytes are stored, one more is refused and not tried."""
    parts.answer(send_request(properties=text(UNIQ_KEY="U")))
    fits = 32767 - len(parts.records("T")[0].properties) - len(text(long=""))
    assert parts.answer(send_request(properties=text(UNIQ_KEY="U", long="v" * fits))).code == 0
    longer = parts.answer(send_request(properties=text(UNIQ_KEY="U", long="v" * (fits + 1))))
    assert longer.code == codes.MESSAGE_ILLEGAL


def test_a_store_that_takes_nothing_answers_14_and_why(parts: Parts) -> None:
    parts.send(send_request())
    for bit, why in ((DISK_FULL, "the disk is full"), (NOT_WRITABLE, "a write of the commit log failed")):
        parts.store.flags.set(bit)
        answer = parts.answer(send_request())
        parts.store.flags.clear(bit)
        assert (answer.code, answer.remark) == (codes.SERVICE_NOT_AVAILABLE, f"service not available now: {why}")


def test_a_broker_takes_no_sends_before_its_time(tmp_path: Path) -> None:
    parts = Parts(tmp_path, start_accept_send_request_time_stamp=NOW + 1)
    assert parts.answer(send_request()).code == codes.SYSTEM_ERROR
    parts.close()


def test_the_door_to_the_log_of_a_slave_is_shut(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    parts.role.become("SLAVE", 1, NOW)
    answer = parts.answer(send_request())
    assert (answer.code, answer.remark) == (
        codes.SERVICE_NOT_AVAILABLE,
        "this broker is a slave: its log is written by its master",
    )
    parts.role.become("ASYNC_MASTER", 0, NOW)
    assert parts.answer(send_request()).code == 0
    parts.close()


def test_the_time_to_accept_sends_is_the_wall_clock_s(tmp_path: Path) -> None:
    parts = Parts(tmp_path, start_accept_send_request_time_stamp=NOW + 60_000)
    assert parts.answer(send_request()).code == codes.SYSTEM_ERROR
    parts.store.clock_set(60_000)
    assert parts.answer(send_request()).code == 0
    parts.close()


def test_a_broker_without_write_permission_refuses_order_topics_only(tmp_path: Path) -> None:
    parts = Parts(tmp_path, broker_permission=4)
    parts.topics.put(TopicConfig("Ordered", 4, 4, order=True), NOW)
    assert parts.answer(send_request("Ordered")).code == codes.NO_PERMISSION
    assert parts.answer(send_request("Plain")).code == 0
    parts.close()


def test_a_topic_is_made_after_its_template(parts: Parts) -> None:
    assert parts.answer(send_request("New", d="16")).code == 0
    made = parts.topics.get("New")
    assert made is not None and (made.read_queue_nums, made.write_queue_nums, made.perm) == (8, 8, 6)
    assert parts.effects.persists == {"topics"} and parts.effects.registrations == {"New"}


def test_a_send_to_a_topic_that_is_not_on_disk_yet_waits_for_the_table(parts: Parts) -> None:
    assert parts.answer(send_request("New")).code == 0
    parts.effects.persists.clear()
    assert parts.answer(send_request("New")).code == 0
    assert parts.effects.persists == {"topics"}
    parts.topics.begin()
    parts.topics.written()
    parts.effects.persists.clear()
    assert parts.answer(send_request("New")).code == 0
    assert parts.effects.persists == set()


def test_without_auto_creation_the_template_does_not_exist(tmp_path: Path) -> None:
    parts = Parts(tmp_path, auto_create_topic_enable=False)
    assert parts.answer(send_request("New")).code == codes.TOPIC_NOT_EXIST
    assert parts.answer(send_request("%RETRY%g")).code == 0
    made = parts.topics.get("%RETRY%g")
    assert made is not None and (made.write_queue_nums, made.perm) == (1, 6)
    parts.close()


def test_a_negative_queue_lets_the_broker_choose(parts: Parts) -> None:
    chosen = {parts.answer(send_request(e="-1")).ext()["queueId"] for _ in range(8)}
    assert chosen == {"0", "1", "2", "3"}


def test_a_queue_that_only_readers_have_is_taken(parts: Parts) -> None:
    """Shrinking a topic takes write queues first; a client with an old route may still send there."""
    parts.topics.put(TopicConfig("Shrunk", read_queue_nums=4, write_queue_nums=2), NOW)
    assert parts.answer(send_request("Shrunk", e="3")).code == 0
    assert parts.answer(send_request("Shrunk", e="4")).code == codes.INVALID_PARAMETER


def test_a_delayed_message_goes_through_the_schedule_topic(parts: Parts) -> None:
    answer = parts.answer(send_request(properties=text(DELAY="3", UNIQ_KEY="U"), e="2"))
    assert answer.ext()["queueId"] == "2"
    (record,) = parts.records("SCHEDULE_TOPIC_XXXX", 2)
    properties = properties_of(record)
    assert (properties["REAL_TOPIC"], properties["REAL_QID"], properties["DELAY"]) == ("T", "2", "3")
    units = parts.store.units("SCHEDULE_TOPIC_XXXX", 2, 0, 1)
    assert units[0][2] == NOW + 10_000
    parts.answer(send_request(properties=text(DELAY="99")))
    assert len(parts.records("SCHEDULE_TOPIC_XXXX", 17)) == 1


def test_a_retry_tried_too_often_is_a_dead_letter(parts: Parts) -> None:
    assert parts.answer(send_request("%RETRY%g", j="16", properties=text(DELAY="3"))).code == 0
    assert len(parts.records("SCHEDULE_TOPIC_XXXX", 2)) == 1
    parts.answer(send_request("%RETRY%g", j="17", properties=text(DELAY="3")))
    (dead,) = parts.records("%DLQ%g")
    assert properties_of(dead)["DELAY"] == "-1"
    parts.answer(send_request("%RETRY%g", j="3", l="2"))
    assert len(parts.records("%DLQ%g")) == 2
    parts.answer(send_request("%RETRY%g", j="3", l="2", version=120))
    assert (len(parts.records("%DLQ%g")), len(parts.records("%RETRY%g"))) == (2, 1)


def test_a_retry_of_a_group_that_consumes_in_order_is_a_dead_letter(parts: Parts) -> None:
    parts.locks.lock("g", "client", [MessageQueue("T", "broker-a", 0)], NOW)
    parts.answer(send_request("%RETRY%g", j="1"))
    assert len(parts.records("%DLQ%g")) == 1


def test_a_retry_of_an_unknown_group_is_refused(tmp_path: Path) -> None:
    parts = Parts(tmp_path, auto_create_subscription_group=False)
    assert parts.answer(send_request("%RETRY%g")).code == codes.SUBSCRIPTION_GROUP_NOT_EXIST
    parts.groups.put(SubscriptionGroupConfig("g"), NOW)
    assert parts.answer(send_request("%RETRY%g")).code == 0
    parts.close()


def test_transactions_are_refused_while_nobody_serves_them(parts: Parts) -> None:
    assert parts.answer(send_request(properties=text(TRAN_MSG="true"))).code == codes.NO_PERMISSION


def test_a_priority_chooses_the_queue(parts: Parts) -> None:
    assert parts.answer(send_request(properties=text(_SYS_MSG_PRIORITY_="9"))).ext()["queueId"] == "3"
    keyed = text(_SYS_MSG_PRIORITY_="2", __SHARDINGKEY="s")
    assert parts.answer(send_request(properties=keyed)).ext()["queueId"] == "0"


def test_multi_tag_topics_mark_their_messages(parts: Parts) -> None:
    parts.topics.put(TopicConfig("M", 1, 1, topic_filter_type="MULTI_TAG"), NOW)
    parts.answer(send_request("M"))
    assert parts.records("M")[0].sys_flag & 0x2


def test_the_answer_to_a_binary_request_is_binary(parts: Parts) -> None:
    command = send_request(properties=text(UNIQ_KEY="U"))
    command.serialize_type = 1
    answer = reply_of(parts.send(command))
    assert answer.serialize_type == 1 and answer.ext()["transactionId"] == "U"


def test_host_flags_follow_the_hosts_and_not_the_client(parts: Parts) -> None:
    parts.answer(send_request(f=str(0x30)))
    parts.channel = Channel(2, encode_host("2001:db8::1", 77), "[2001:db8::1]:77")
    parts.answer(send_request())
    parts.channel = Channel(3, PEER, "10.1.2.3:4567")
    parts.answer(send_request())
    first, second, third = parts.records("T")
    assert (first.sys_flag & 0x30, second.sys_flag & 0x30, third.sys_flag & 0x30) == (0, 0x10, 0)
    assert second.born_host == encode_host("2001:db8::1", 77) and third.born_host == PEER
