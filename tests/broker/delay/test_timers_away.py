"""The timer of an acting slave: due messages and those that roll go to other sets, recalled ones nowhere."""

from __future__ import annotations

import pytest

from bolide.broker.core.role import SLAVE, Role
from bolide.layout.names import TIMER_TOPIC
from tests.broker.timer_parts import ROUND, Timer


def act(timer: Timer) -> None:
    """The broker is a slave from here on, which has its master's log and acts for it."""
    timer.writer.role.become(SLAVE, 1, timer.now)
    timer.service.role_changed(timer.writer.role, timer.now)
    timer.writer.role = Role(SLAVE, 1, may_act=True, may_escape=True)
    least(timer, 1)


def least(timer: Timer, number: int) -> None:
    assert timer.writer.role.least_is(number)
    timer.service.role_changed(timer.writer.role, timer.now)


def sent(timer: Timer) -> list[str]:
    """The bodies of what was sent since the last call; all of it arrives."""
    found, timer.aways = timer.aways, []
    for _, then in found:
        then("", timer.now)
    return [message.body.decode() for message, _ in found]


def test_what_is_due_is_sent_and_what_was_delivered_is_not() -> None:
    timer = Timer()
    timer.send("a", 3_000)
    timer.send("b", 10_000)
    timer.later(5_000)
    assert timer.delivered() == ["a"]
    act(timer)
    timer.later(4_000)
    assert sent(timer) == []
    timer.later(3_000)
    assert [message.topic for message, _ in timer.aways] == ["T"]
    assert timer.aways[0][0].properties.get("TIMER_OUT_MS") is not None, "its time has acted"
    assert sent(timer) == ["b"]
    assert timer.delivered() == ["a"], "nothing is stored here"
    timer.later(3_000)
    least(timer, 0)
    assert timer.service.due(timer.now) is None
    least(timer, 1)
    timer.later(30_000)
    assert sent(timer) == []


def test_a_send_that_fails_is_tried_again_and_nothing_counts_as_done_before() -> None:
    timer = Timer()
    timer.send("a", 3_000)
    act(timer)
    slot = timer.now + 3_000
    timer.later(5_000)
    ((_, then),) = timer.aways
    timer.aways.clear()
    then("refused", timer.now)
    timer.later(400)
    assert timer.aways == []
    timer.later(200)
    assert len(timer.aways) == 1
    assert timer.service._files.checkpoint.read_time <= slot
    assert sent(timer) == ["a"]
    timer.later(5_000)
    assert timer.service._files.checkpoint.read_time > slot


@pytest.mark.parametrize("arrived", [False, True])
def test_what_had_not_arrived_when_the_slave_was_killed_is_sent_again(arrived: bool) -> None:
    timer = Timer()
    timer.send("a", 3_000)
    act(timer)
    timer.later(5_000)
    assert len(timer.aways) == 1
    if arrived:
        assert sent(timer) == ["a"]
        timer.later(5_000)
    timer.close()
    timer = timer.again()
    timer.aways.clear()
    act(timer)
    timer.later(5_000)
    assert sent(timer) == ([] if arrived else ["a"])


def test_what_was_recalled_is_sent_nowhere() -> None:
    timer = Timer()
    timer.send("a", 5_000)
    timer.send("b", 5_000)
    timer.send("del", 5_000, TIMER_DEL_UNIQKEY="a")
    act(timer)
    timer.later(10_000)
    assert sent(timer) == ["b"]


def test_what_rolls_waits_on_at_the_other_set() -> None:
    timer = Timer(timer_roll_window_slot=60)
    timer.send("far", ROUND * 900)
    due = timer.now + ROUND * 900
    act(timer)
    timer.later(ROUND * 800)
    (message, _) = timer.aways[0]
    assert message.topic == "T" and message.properties.get("TIMER_OUT_MS") is None
    told = int(message.properties.get("TIMER_DELIVER_MS") or "0")
    assert due - 1000 <= told <= due
    assert sent(timer) == ["far"]
    timer.later(ROUND * 800)
    assert sent(timer) == [] and len(timer.records(TIMER_TOPIC)) == 1
