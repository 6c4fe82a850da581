"""The judge of delays: which copies of a message that waits crashes explain, and which they do not."""

from __future__ import annotations

from dataclasses import replace

from proof.ledger import Kind, Place, Queue, Send, Served
from tests.proof.histories import A1, History, deliver_twice


def roll(history: History, send: Send) -> Served:
    """The message is stored once more while it waits."""
    history.log_end += 100
    place = Place(Queue("a", "timers", 0), len(history.view.rolled))
    history.view.rolled.append(Served(place, send.content, history.log_end, history.time))
    return history.view.rolled[-1]


def timer_that_rolls(history: History, until_crash_s: float) -> Send:
    """A timer message is stored again, and its broker crashes some seconds later."""
    history.promises = replace(history.promises, timer_progress_s=2.0, late_s=100.0)
    send = history.sent(Kind.DELAYED, due=30.0)
    send.by_clock = True
    history.ledger.acknowledged(send, None)
    history.time += 10.0
    roll(history, send)
    history.time += until_crash_s
    history.ledger.crashed("a")
    return send


def deliver(history: History, send: Send, times: int) -> set[str]:
    history.time = history.view.at = max(history.time, send.due_at + 1.0)
    for _ in range(times):
        history.consume(history.serve(A1, send))
    return history.found()


def test_a_crash_repeats_a_step_of_the_timer_whose_progress_was_not_on_disk() -> None:
    history = History()
    send = timer_that_rolls(history, 1.0)
    history.time += 0.5
    roll(history, send)
    assert deliver(history, send, 2) == set()
    assert deliver(history, send, 1) == {"delivered once"}


def test_a_crash_repeats_no_step_of_the_timer_whose_progress_was_on_disk() -> None:
    history = History()
    send = timer_that_rolls(history, 5.0)
    assert deliver(history, send, 1) == set()
    assert deliver(history, send, 1) == {"delivered once"}


def test_a_second_crash_repeats_each_record_that_waits_once_and_not_once_for_each_power_of_two() -> None:
    history = History()
    send = timer_that_rolls(history, 1.0)
    for _ in range(3):
        history.ledger.crashed("a")
    assert deliver(history, send, 2) == set()
    assert deliver(history, send, 1) == {"delivered once"}, "of 16 that four crashes once allowed"


def test_a_crash_of_another_broker_repeats_nothing() -> None:
    history = History()
    deliver_twice(history)
    history.ledger.crashed("b")
    assert history.found() == {"delivered once"}


def test_a_crash_long_after_a_delivery_by_level_repeats_nothing() -> None:
    history = History()
    history.promises = replace(history.promises, level_progress_s=10.0)
    deliver_twice(history)
    history.time = 140.0
    history.ledger.crashed("a")
    assert history.found() == {"delivered once"}
