"""Messages wait in the wheel for their time: delivery, rolls, deletes, restarts, files that are lost."""

from __future__ import annotations

import json

import pytest

from bolide.broker.core.channel import Channel
from bolide.broker.delay.timer_delivery import NEVER_WAITED
from bolide.layout.names import TIMER_TOPIC
from bolide.layout.timer_checkpoint import decode_timer_checkpoint
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from tests.broker.parts import NOW, PEER, properties_of, reply_of
from tests.broker.timer_parts import ROOT, Timer

MINUTE = 60_000


def test_a_message_is_delivered_within_the_second_that_begins_at_its_time() -> None:
    timer = Timer(now=NOW + 250)
    found = timer.send("a", 3_500, TAGS="red", KEYS="k")
    assert found.waits_until == NOW + 3_000
    timer.later(3_700)
    assert timer.delivered() == []
    timer.later(1_000)
    (record,) = timer.records()
    assert record.store_timestamp == NOW + 4_000
    properties = properties_of(record)
    stamps = {name: properties.pop(name) for name in ("TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS")}
    assert stamps == {"TIMER_ENQUEUE_MS": str(NOW), "TIMER_DEQUEUE_MS": str(NOW + 4_000)}
    assert properties == {
        "UNIQ_KEY": "a",
        "TIMER_DELIVER_MS": str(NOW + 3_750),
        "TAGS": "red",
        "KEYS": "k",
        "TIMER_OUT_MS": str(NOW + 3_000),
        "REAL_TOPIC": "T",
        "REAL_QID": "0",
    }
    assert (record.topic, record.born_timestamp, record.prepared_transaction_offset) == ("T", 5, 0)


def test_the_stamps_are_those_of_the_wall_clock() -> None:
    """Steady time continues unchanged when the clock is set."""
    timer = Timer()
    timer.store.times.step(3_600_000, timer.store.end_offset)
    timer.send("a", 3_602_000)
    timer.later(4_000)
    (record,) = timer.records()
    properties = properties_of(record)
    came, left = int(properties["TIMER_ENQUEUE_MS"]), int(properties["TIMER_DEQUEUE_MS"])
    assert NOW + 3_600_000 <= came < left <= NOW + 3_604_000


def test_a_time_on_the_second_is_kept_to_the_millisecond() -> None:
    timer = Timer()
    assert timer.send("a", 4_000).waits_until == NOW + 3_000
    timer.later(3_999)
    assert timer.delivered() == []
    timer.later(1)
    assert timer.delivered() == ["a"]


@pytest.mark.parametrize("precision", [100, 200, 500])
def test_a_finer_wheel_is_nearer_to_the_time(precision: int) -> None:
    timer = Timer(timer_precision_ms=precision)
    timer.send("a", 1_250)
    timer.later(1_249)
    assert timer.delivered() == []
    timer.later(precision)
    assert timer.delivered() == ["a"]


def test_messages_of_one_slot_keep_their_order_over_file_ends_and_small_budgets() -> None:
    timer = Timer()
    keys = [f"m{i}" for i in range(40)]
    for key in keys:
        timer.put(key, TIMER_DELAY_SEC="5")
    timer.turn()
    timer.later(6_000, budget=3)
    assert timer.delivered() == keys
    assert len(timer.files.list_dir(f"{ROOT}/timerlog")) == 6


def test_what_is_due_before_it_comes_to_the_wheel_is_delivered_at_once() -> None:
    timer = Timer()
    timer.send("late", 2_000)
    timer.now += 10_000  # the timer had no tick
    timer.later(0)
    (record,) = timer.records()
    assert properties_of(record)["TIMER_ENQUEUE_MS"] == str(NEVER_WAITED)


def test_a_message_beyond_the_window_rolls_on_the_way() -> None:
    timer = Timer(timer_roll_window_slot=30)
    timer.send("far", 100_000)
    timer.send("near", 29_000)
    timer.later(99_999)
    assert timer.delivered() == ["near"]
    timer.later(1)
    assert timer.delivered() == ["near", "far"]
    assert [properties_of(r).get("TIMER_ROLL_TIMES") for r in timer.waiting()] == [None, None, "1", "2", "3"]
    assert properties_of(timer.records()[1])["TIMER_ROLL_TIMES"] == "3"


def test_a_delete_takes_the_message_of_its_slot_and_no_other() -> None:
    timer = Timer(timer_roll_window_slot=30)
    for key in ("kept", "gone", "other"):
        timer.send(key, 50_500)
    timer.send("later", 51_500)
    timer.later(5_000)
    for key in ("gone", "later"):
        timer.send("d" + key, 45_500, TIMER_DEL_UNIQKEY=key)
    timer.later(80_000)
    assert timer.delivered() == ["kept", "other", "later"]
    assert timer.wheel.wheel.count == 0


@pytest.mark.parametrize("seen", ["nothing", "the message", "both"])
def test_a_delete_that_came_in_time_counts_after_a_long_downtime(seen: str) -> None:
    timer = Timer()
    for key in ("kept", "gone"):
        timer.send(key, 10_000)
    if seen != "nothing":
        timer.later(2_000)
    timer.put("d", TIMER_DELIVER_MS=str(NOW + 10_000), TIMER_DEL_UNIQKEY="gone")
    timer.turn()
    if seen == "both":
        timer.later(2_000)
    timer.close()
    timer = timer.again(now=NOW + 100_000)
    timer.later(1_000)
    assert timer.delivered() == ["kept"]


def test_deletes_that_name_the_topic_too() -> None:
    timer = Timer(append_topic_for_timer_delete_key=True)
    for key in ("a", "b"):
        timer.send(key, 5_000)
    timer.send("d", 5_000, TIMER_DEL_UNIQKEY="T+a")
    timer.send("e", 5_000, TIMER_DEL_UNIQKEY="b")
    timer.later(6_000)
    assert timer.delivered() == ["b"]


def test_a_clean_stop_delivers_nothing_twice_and_loses_nothing() -> None:
    timer = Timer(timer_roll_window_slot=30)
    for second in range(1, 60):
        timer.send(f"m{second}", second * 1000)
    for _ in range(12):
        timer.later(5_000)
        timer.close()
        timer = timer.again()
    timer.later(10_000)
    assert timer.delivered() == [f"m{second}" for second in range(1, 60)]
    assert not timer.store.maintenance.problem


def test_a_store_nobody_delayed_anything_in_has_no_file_of_the_timer() -> None:
    timer = Timer()
    timer.put("plain")
    timer.later(MINUTE)
    timer.close()
    assert timer.files.list_dir(f"{ROOT}/timerlog") == []
    assert timer.files.size(f"{ROOT}/timerwheel") == -1
    assert timer.files.size(f"{ROOT}/config/timercheck") == -1


def test_messages_wait_through_a_week_and_more_of_downtime() -> None:
    timer = Timer()
    timer.send("a", 5_000)
    timer.close()
    timer = timer.again(now=timer.now + 3 * 600 * 1000)  # three rounds of this wheel
    timer.send("b", 5_000)
    timer.later(10_000)
    assert timer.delivered() == ["a", "b"]


def test_a_clock_that_goes_back_delays_and_never_hurries() -> None:
    timer = Timer()
    timer.send("a", 2_000)
    timer.later(30_000)
    timer.now -= 20_000
    timer.send("b", 5_000)
    timer.later(15_000)
    assert timer.delivered() == ["a"], "its slot may be over: it waits until the clock is where it was"
    timer.later(6_000)
    assert timer.delivered() == ["a", "b"]
    timer.close()
    timer = timer.again()
    timer.later(30_000)
    assert timer.delivered() == ["a", "b"]


@pytest.mark.parametrize("restart", [False, True])
def test_nobody_waits_for_a_clock_that_was_far_ahead(restart: bool) -> None:
    timer = Timer()
    timer.now += 3_600_000
    timer.send("a", 2_000)
    timer.later(10_000)
    if restart:
        timer.close()
        timer = timer.again(now=NOW)
    timer.now = NOW
    timer.send("b", 5_000)
    timer.later(4_999)
    assert timer.delivered() == ["a"]
    timer.later(1_001)
    assert timer.delivered() == ["a", "b"]


def test_a_relative_delay_counts_again_where_the_clock_is_right() -> None:
    ahead = Timer(now=NOW + 3_600_000)
    ahead.put("seconds", TIMER_DELAY_SEC="5")
    ahead.put("milliseconds", TIMER_DELAY_MS="7000")
    ahead.put("time of day", TIMER_DELIVER_MS=str(NOW + 3_610_000))
    ahead.turn()
    ahead.close()
    timer = ahead.again(now=NOW)
    timer.later(4_999)
    assert timer.delivered() == [], "never early"
    timer.later(1_001)
    assert timer.delivered() == ["seconds"]
    timer.later(2_000)
    assert timer.delivered() == ["seconds", "milliseconds"]
    timer.later(3_590_000)
    assert timer.delivered() == ["seconds", "milliseconds"]
    timer.later(20_000)
    assert timer.delivered() == ["seconds", "milliseconds", "time of day"]


def test_a_relative_delay_that_began_long_ago_does_not_begin_again() -> None:
    timer = Timer()
    timer.put("a", TIMER_DELAY_SEC="100")
    timer.turn()
    timer.close()
    timer = timer.again(now=NOW + 95_000)
    timer.later(6_000)
    assert timer.delivered() == ["a"]


def test_what_is_due_is_not_held_up_by_what_comes_in() -> None:
    timer = Timer()
    timer.send("due", 2_000)
    timer.later(1_000)
    timer.now += 10_000
    for number in range(40):
        timer.put(f"m{number}", TIMER_DELAY_SEC="50")
    timer.turn()
    for _ in range(2):
        timer.service.tick(timer.now, 8)
        timer.turn()
    assert timer.delivered() == ["due"]


def test_stopped_by_a_setting() -> None:
    timer = Timer(timer_stop_enqueue=True)
    timer.send("a", 2_000)
    timer.later(10_000)
    assert (timer.delivered(), timer.service.behind(timer.now)[1]) == ([], 1)
    timer.close()
    timer = timer.again(timer_stop_enqueue=False, timer_stop_dequeue=True)
    timer.send("b", 2_000)
    timer.later(10_000)
    assert timer.delivered() == ["a"]
    timer.close()
    timer = timer.again(timer_stop_dequeue=False)
    timer.later(1_000)
    assert timer.delivered() == ["a", "b"]


@pytest.mark.parametrize(
    "where",
    [
        {"REAL_TOPIC": "../../T"},
        {"REAL_TOPIC": "T/0"},
        {"REAL_TOPIC": ""},
        {"REAL_TOPIC": "SCHEDULE_TOPIC_XXXX"},
        {"REAL_QID": "4294967296"},
        {"REAL_QID": "-1"},
        {"REAL_QID": "zero"},
        {"TIMER_OUT_MS": "never"},
    ],
)
def test_what_somebody_wrote_to_the_timer_topic_by_hand_harms_nobody(where: dict[str, str]) -> None:
    timer = Timer()
    for out in (NOW - 5_000, NOW + 2_000):
        timer.put("evil", TIMER_TOPIC, **{"TIMER_OUT_MS": str(out), "REAL_TOPIC": "T", "REAL_QID": "0", **where})
    timer.send("good", 3_000)
    timer.later(5_000)
    assert timer.delivered() == ["good"]
    timer.close()
    assert timer.files.list_dir(f"{ROOT}/consumequeue") == ["T", TIMER_TOPIC]


def test_slaves_are_told_the_checkpoint_and_the_figures() -> None:
    timer = Timer()
    timer.send("a", 20_000)
    timer.later(1_000)
    channel = Channel(1, PEER, "10.1.2.3:4567", 10911)

    def asked(code: int) -> Command:
        return reply_of(timer.service.handlers()[code](channel, make_request(code, 1), timer.now))

    checkpoint = asked(codes.GET_TIMER_CHECK_POINT)
    assert (checkpoint.code, len(checkpoint.body)) == (0, 56)
    assert decode_timer_checkpoint(checkpoint.body).queue_offset == 1
    figures = json.loads(asked(codes.GET_TIMER_METRICS).body)
    assert figures["timingCount"] == {"T": {"count": 1, "timeStamp": NOW}}
    timer = Timer(timer_wheel_enable=False)
    for code in (codes.GET_TIMER_CHECK_POINT, codes.GET_TIMER_METRICS):
        assert asked(code).code == codes.SYSTEM_ERROR


def test_what_runtime_info_and_the_checkpoint_tell() -> None:
    timer = Timer()
    timer.send("a", 20_000)
    assert timer.service.behind(timer.now) == (0, 1, 0)
    timer.later(5_000)
    assert timer.service.behind(timer.now) == (0, 0, 1)
    assert timer.service.metrics.rates(timer.now) == (0.2, 0.0)
    found = decode_timer_checkpoint(timer.files.read_file(f"{ROOT}/config/timercheck"))
    assert (found.queue_offset, found.log_end, found.ours) == (1, 52, True)
    assert NOW <= found.read_time <= timer.now
    assert timer.wheel.wheel.count_at(NOW + 19_000) == 1
    assert len(timer.records(TIMER_TOPIC)) == 1


@pytest.mark.parametrize("step", [-3_600_000, 3_600_000])
def test_a_time_of_day_is_that_of_the_clock_as_it_is_set_now(step: int) -> None:
    timer = Timer()
    timer.put("before", TIMER_DELIVER_MS=str(NOW + 20_000 + step))
    timer.turn()
    timer.later(1_000)
    timer.store.clock_set(step)
    timer.put("relative", TIMER_DELAY_SEC="4")
    timer.turn()
    timer.later(5_000)
    assert timer.delivered() == (["before", "relative"] if step < 0 else ["relative"])
    timer.later(20_000)
    assert sorted(timer.delivered()) == ["before", "relative"]


@pytest.mark.parametrize(("guarded", "kept"), [(True, ["a"]), (False, [])])
def test_where_permissions_are_asked_for_a_delete_must_come_from_the_topic_of_its_message(
    guarded: bool, kept: list[str]
) -> None:
    timer = Timer(authentication_enabled=guarded, authorization_enabled=guarded)
    for key in ("a", "b"):
        timer.send(key, 5_000)
    timer.send("d", 5_000, topic="Other", TIMER_DEL_UNIQKEY="a")
    timer.send("e", 5_000, TIMER_DEL_UNIQKEY="b")
    timer.later(6_000)
    assert timer.delivered() == kept


def test_a_late_delete_from_another_topic_deletes_nothing_either() -> None:
    timer = Timer(authentication_enabled=True, authorization_enabled=True)
    timer.send("a", 5_000)
    timer.put("d", "Other", TIMER_DELIVER_MS=str(NOW + 5_000), TIMER_DEL_UNIQKEY="a")
    timer.turn()
    timer.close()
    timer = timer.again(now=NOW + 100_000, authentication_enabled=True, authorization_enabled=True)
    timer.later(1_000)
    assert timer.delivered() == ["a"]
