"""What the door makes of TIMER_* properties, row by row: Java's HookUtils.handleScheduleMessage."""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.broker.append.timer_rules import TimerRules, delivery_time
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import Refused
from bolide.broker.tables.system_topics import system_topics
from bolide.layout.message_properties import MessageProperties
from bolide.layout.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from bolide.layout.property_names import TIMER_DELIVER_MS
from bolide.remoting import codes
from bolide.remoting.recall_handle import decode_recall_handle
from tests.broker.parts import NOW, Parts, properties_of, send_request, text
from tests.broker.transaction_parts import Transactions

DAYS_3 = 3 * 24 * 3600 * 1000


@pytest.mark.parametrize(
    "properties, out",
    [
        ({"TIMER_DELAY_SEC": "10"}, NOW + 9_000),
        ({"TIMER_DELAY_MS": "10500"}, NOW + 10_000),
        ({"TIMER_DELIVER_MS": str(NOW + 1)}, NOW),
        ({"TIMER_DELIVER_MS": str(NOW + 2_999)}, NOW + 2_000),
        ({"TIMER_DELAY_SEC": "1", "TIMER_DELAY_MS": "99000", "TIMER_DELIVER_MS": "1"}, NOW),
        ({"TIMER_DELAY_MS": "1000", "TIMER_DELIVER_MS": "junk"}, NOW),
        ({"TIMER_DELIVER_MS": str(NOW + DAYS_3)}, NOW + DAYS_3 - 1_000),
        ({"TIMER_DELAY_SEC": "+5", "DELAY": "0"}, NOW + 4_000),
        ({"TIMER_DELAY_SEC": "5", "DELAY": "-1"}, NOW + 4_000),
    ],
)
def test_a_time_to_come_waits_in_its_slot(tmp_path: Path, properties: dict[str, str], out: int) -> None:
    parts = Parts(tmp_path)
    answer = parts.answer(send_request(properties=text(UNIQ_KEY="U", **properties), e="2"))
    (record,) = parts.records(TIMER_TOPIC)
    stored = properties_of(record)
    assert answer.code == 0
    assert answer.ext()["queueId"] == "2"
    assert (record.queue_id, stored["TIMER_OUT_MS"]) == (0, str(out))
    assert (stored["REAL_TOPIC"], stored["REAL_QID"]) == ("T", "2")
    assert {name: stored[name] for name in properties} == properties
    handle = decode_recall_handle(answer.ext()["recallHandle"])
    assert handle == ("T", "broker-a", str(out + 1), "U")
    parts.close()


@pytest.mark.parametrize("binary", [False, True], ids=["json", "binary"])
def test_only_what_waits_for_a_time_can_be_taken_back(tmp_path: Path, binary: bool) -> None:
    parts = Parts(tmp_path)
    for properties in ("", text(DELAY="3"), text(TIMER_DELAY_SEC="0")):
        assert "recallHandle" not in parts.answer(send_request(properties=properties)).ext()
    command = send_request(properties=text(TIMER_DELAY_SEC="9"))
    command.serialize_type = 1 if binary else 0
    assert parts.answer(command).ext()["recallHandle"]
    parts.close()


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": "0"},
        {"TIMER_DELAY_SEC": "-7"},
        {"TIMER_DELIVER_MS": str(NOW)},
        {"TIMER_DELIVER_MS": "1"},
        {"TIMER_DELAY_SEC": "10", "TIMER_OUT_MS": "1"},
    ],
)
def test_a_time_that_is_over_is_now(tmp_path: Path, properties: dict[str, str]) -> None:
    parts = Parts(tmp_path)
    assert parts.answer(send_request(properties=text(**properties))).code == 0
    (record,) = parts.records("T")
    assert {name: properties_of(record)[name] for name in properties} == properties
    parts.close()


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": "259201"},
        {"TIMER_DELIVER_MS": str(NOW + DAYS_3 + 1)},
        {"TIMER_DELAY_SEC": "soon"},
        {"TIMER_DELAY_MS": "1.5"},
        {"TIMER_DELIVER_MS": str(1 << 63)},
        {"TIMER_DELIVER_MS": str(NOW), "TIMER_DEL_UNIQKEY": "U"},
    ],
)
def test_no_time_too_far_a_time_and_a_late_delete_are_illegal(tmp_path: Path, properties: dict[str, str]) -> None:
    parts = Parts(tmp_path)
    answer = parts.answer(send_request(properties=text(**properties)))
    assert answer.code == codes.MESSAGE_ILLEGAL
    assert "259200000ms" in str(answer.remark)
    parts.close()


def test_without_the_wheel_a_time_is_refused_and_there_is_no_topic(tmp_path: Path) -> None:
    parts = Parts(tmp_path, timer_wheel_enable=False)
    answer = parts.answer(send_request(properties=text(TIMER_DELAY_SEC="1")))
    assert answer.code == codes.SYSTEM_ERROR
    assert "accurate timer message is not enabled, timerWheelEnable is false" in str(answer.remark)
    assert parts.answer(send_request(properties=text(TIMER_DELAY_SEC="1", DELAY="1"))).code == 0
    assert TIMER_TOPIC not in {topic.topic_name for topic in system_topics(parts.options)}
    parts.close()


def test_a_level_beats_a_time(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    times = {"TIMER_DELAY_SEC": "9", "TIMER_DELAY_MS": "9", "TIMER_DELIVER_MS": "9"}
    assert parts.answer(send_request(properties=text(DELAY="2", **times))).code == 0
    (record,) = parts.records(SCHEDULE_TOPIC, 1)
    assert not times.keys() & properties_of(record).keys()
    parts.close()


def test_a_half_message_waits_once_it_commits(tmp_path: Path) -> None:
    parts = Transactions(tmp_path)
    half = parts.half(TIMER_DELAY_SEC="60")
    (record,) = parts.records(HALF_TOPIC)
    assert properties_of(record)["TIMER_DELAY_SEC"] == "60"
    assert "recallHandle" not in half.ext()
    parts.now += 5_000
    assert parts.code(half, 8) == 0
    (record,) = parts.records(TIMER_TOPIC)
    stored = properties_of(record)
    assert (stored["REAL_TOPIC"], stored["REAL_QID"]) == ("T", "2")
    assert stored["TIMER_OUT_MS"] == str(NOW + 5_000 + 59_000)
    assert record.sys_flag & 0xC == 8
    parts.close()


def test_a_commit_of_a_message_too_far_away_is_refused_and_stays_open(tmp_path: Path) -> None:
    parts = Transactions(tmp_path)
    half = parts.half(TIMER_DELAY_SEC="9999999")
    with pytest.raises(Refused) as refused:
        parts.code(half, 8)
    assert refused.value.response_code == codes.MESSAGE_ILLEGAL
    assert parts.code(half, 12) == 0
    parts.close()


def test_a_slot_too_full_refuses_some_and_then_all() -> None:
    asked: list[int] = []

    def refused_of(waiting: int) -> int:
        def waiting_at(time: int) -> int:
            asked.append(time)
            return waiting

        rules = TimerRules(BrokerOptions.of(timer_congest_num_each_slot=100), waiting_at)
        refusals = []
        for _ in range(1000):
            try:
                rules.slot(MessageProperties(text(TIMER_DELAY_SEC="5")), NOW)
            except Refused as error:
                refusals.append((error.response_code, str(error)))
        remark = "max num limit is 200 or the current value is greater than 100 and less than 200"
        assert all(code == codes.SYSTEM_ERROR and remark in said for code, said in refusals)
        return len(refusals)

    shares = [refused_of(waiting) for waiting in (100, 101, 150, 199, 200)]
    # Java's formula refuses the fewer the fuller the slot is, until it is full for good.
    assert shares == [0, 990, 500, 10, 1000]
    assert set(asked) == {NOW + 4_000}


def test_a_precision_between_two_means_the_finer() -> None:
    assert TimerRules(BrokerOptions.of(timer_precision_ms=999)).precision == 500
    assert TimerRules(BrokerOptions.of(timer_precision_ms=1)).precision == 100
    assert TimerRules(BrokerOptions.of(timer_precision_ms=60_000)).precision == 1000


@pytest.mark.parametrize("number", ["", " 1", "1 ", "0x1", "1_000", "٣", "--1", "+", "9" * 25])
def test_numbers_java_does_not_read(number: str) -> None:
    assert delivery_time({TIMER_DELIVER_MS: number}, NOW) is None
