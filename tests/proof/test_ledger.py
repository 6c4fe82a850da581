"""Each promise of the ledger, red: a good history finds nothing, and each small wrong in it is found by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from proof.ledger import (
    Decision,
    Kind,
    Outcome,
    Place,
    QueueView,
    Served,
    number_of,
    outstanding,
)
from tests.proof.histories import A0, A1, TABLE, History, deliver_twice


def test_a_history_as_promised_finds_nothing() -> None:
    history = History()
    assert history.found() == set()
    assert outstanding(history.ledger, history.view, history.promises) == []


def lose_acknowledged(history: History) -> None:
    view = history.view.queues[A1]
    del view.messages[-1]
    view.end -= 1


def store_twice(history: History) -> None:
    history.consume(history.serve(A0, history.plain[0]))


def keep_refused(history: History) -> None:
    send = history.sent()
    history.consume(history.serve(A1, send))
    history.ledger.refused(send, "SYSTEM_BUSY")


def give_refused(history: History) -> None:
    send = history.sent()
    seen = history.ledger.consumed("g", "m", Place(A1, 2), send.content)
    history.ledger.listened(seen, True)
    history.ledger.refused(send, "SYSTEM_BUSY")


def change_body(history: History) -> None:
    served = history.view.queues[A0].messages[1]
    served.content = replace(served.content, body=served.content.body + b"!")


def change_tags_given(history: History) -> None:
    served = history.view.queues[A0].messages[1]
    history.ledger.consumed("g", "m", served.place, replace(served.content, tags="blue"))


def serve_unsent(history: History) -> None:
    content = replace(history.plain[0].content, body=b"#999#")
    history.view.queues[A1].messages.append(Served(Place(A1, 2), content))
    history.view.queues[A1].end = 3


def give_unsent(history: History) -> None:
    history.ledger.consumed("g", "m", Place(A1, 2), replace(history.plain[0].content, body=b"no number"))


def leave_a_hole(history: History) -> None:
    history.view.queues[A0].end += 1


def swap_in_the_log(history: History) -> None:
    first, second = history.view.queues[A0].messages[:2]
    first.physical, second.physical = second.physical, first.physical


def acknowledge_out_of_order(history: History) -> None:
    earlier, later = history.sent(), history.sent()
    earlier.ended, later.began = later.began - 1, later.began
    for send in (later, earlier):
        served = history.serve(A1, send)
        ended = send.ended
        history.ledger.acknowledged(send, served.place)
        send.ended = min(ended, send.ended)
        history.consume(served)


def store_a_lane_out_of_order(history: History) -> None:
    earlier, later = history.sent(), history.sent()
    for send in (later, earlier):
        served = history.serve(A1, send)
        history.ledger.acknowledged(send, served.place)
        history.consume(served)


def bring_back_deleted(history: History) -> None:
    for value in (None, "2 queues"):
        history.ledger.changed(history.ledger.changing(TABLE, value), Outcome.DONE)


def deliver_early(history: History) -> None:
    served = next(one for one in history.view.queues[A0].messages if one.number == history.delayed.number)
    served.stored_at = history.delayed.due_at - 1


def give_early(history: History) -> None:
    history.ledger.seen[4].at = history.delayed.due_at - 1


def deliver_late(history: History) -> None:
    served = next(one for one in history.view.queues[A0].messages if one.number == history.delayed.number)
    served.stored_at = history.delayed.due_at + 2


def deliver_never(history: History) -> None:
    send = history.sent(Kind.DELAYED, due=3)
    history.ledger.acknowledged(send, None)
    history.view.at += 10


def deliver_recalled(history: History) -> None:
    history.ledger.recalled(history.delayed, Outcome.DONE)
    history.delayed.recalled_at = history.delayed.due_at - 3


def commit_twice(history: History) -> None:
    history.consume(history.serve(A0, history.half))


def commit_never(history: History) -> None:
    send = history.sent(Kind.HALF)
    history.ledger.acknowledged(send, None)
    history.ledger.decided(send, Decision.COMMIT)


def show_rolled_back(history: History) -> None:
    send = history.kept(A1, Kind.HALF)
    history.ledger.decided(send, Decision.ROLLBACK)
    history.consume(history.view.queues[A1].messages[-1])


def show_undecided(history: History) -> None:
    history.kept(A1, Kind.HALF)
    history.consume(history.view.queues[A1].messages[-1])


def consume_never(history: History) -> None:
    history.kept(A1)


def never_try_again(history: History) -> None:
    history.kept(A1)
    history.consume(history.view.queues[A1].messages[-1], accepted=False)


def give_up_early(history: History) -> None:
    history.ledger.seen[:] = [seen for seen in history.ledger.seen if seen.accepted] + history.ledger.seen[-1:]


def commit_beyond_what_was_got(history: History) -> None:
    history.kept(A1)
    history.ledger.offset_read("g", A1, 3)
    history.consume(history.view.queues[A1].messages[-1])


def commit_beyond_the_end(history: History) -> None:
    history.view.offsets["g", A0] = 6


def give_unwanted(history: History) -> None:
    history.group.wants = lambda content: content.tags != "red"


def forget_a_table(history: History) -> None:
    history.view.tables[TABLE] = None


def take_back_a_table(history: History) -> None:
    history.ledger.changed(history.ledger.changing(TABLE, "4 queues"), Outcome.DONE)


def grow(history: History) -> None:
    history.ledger.figure("memory", 2e9, 1e9)


WRONGS: list[tuple[Callable[[History], None], set[str]]] = [
    (lose_acknowledged, {"acknowledged is kept"}),
    (store_twice, {"once in the log"}),
    (keep_refused, {"refused is nowhere"}),
    (give_refused, {"refused is nowhere"}),
    (change_body, {"served as sent"}),
    (change_tags_given, {"served as sent"}),
    (serve_unsent, {"served what was not sent"}),
    (give_unsent, {"served what was not sent"}),
    (leave_a_hole, {"queues have no holes"}),
    (swap_in_the_log, {"queues follow the log"}),
    (acknowledge_out_of_order, {"in order"}),
    (store_a_lane_out_of_order, {"in order"}),
    (bring_back_deleted, {"deleted stays deleted"}),
    (deliver_early, {"not before its time"}),
    (give_early, {"not before its time"}),
    (deliver_late, {"not long after its time"}),
    (deliver_never, {"delayed is delivered"}),
    (deliver_twice, {"delivered once"}),
    (deliver_recalled, {"taken back"}),
    (commit_twice, {"committed once"}),
    (commit_never, {"committed is delivered"}),
    (show_rolled_back, {"rolled back is nowhere"}),
    (show_undecided, {"rolled back is nowhere"}),
    (consume_never, {"consumed at least once"}),
    (never_try_again, {"consumed at least once"}),
    (give_up_early, {"dead letters are tried first"}),
    (commit_beyond_what_was_got, {"offsets do not lead"}),
    (commit_beyond_the_end, {"offsets do not lead"}),
    (give_unwanted, {"filters hold"}),
    (forget_a_table, {"answered tables are kept"}),
    (take_back_a_table, {"answered tables are kept"}),
    (grow, {"memory is bounded"}),
]


@pytest.mark.parametrize(("wrong", "promises"), WRONGS, ids=lambda value: getattr(value, "__name__", ""))
def test_each_wrong_is_found_by_its_name(wrong: Callable[[History], None], promises: set[str]) -> None:
    history = History()
    wrong(history)
    assert history.found() == promises


def test_an_orderly_group_gets_nothing_before_what_it_has_not_accepted() -> None:
    history = History()
    history.group.orderly = True
    history.consume(history.view.queues[A0].messages[2])
    assert history.found() == set(), "it goes back after a restart, and that is allowed"
    late = [history.kept(A0) for _ in range(2)]
    for number in (1, 0):
        history.consume(history.view.queues[A0].messages[-1 - (1 - number)])
    assert len(late) == 2
    assert history.found() == {"in order"}


def test_an_unknown_outcome_may_be_there_once_for_each_attempt() -> None:
    history = History()
    send = history.sent()
    send.attempts = 2
    history.ledger.unknown(send, "timeout")
    assert history.found() == set()
    for _ in range(2):
        history.consume(history.serve(A1, send))
    assert history.found() == set()
    history.consume(history.serve(A1, send))
    assert history.found() == {"once in the log"}


def cut(history: History, tail_s: float, power: bool) -> None:
    """Lose the last message of queue 1 by a crash 3 s after it was acknowledged."""
    history.promises = replace(history.promises, sync_flush=False, tail_s=tail_s)
    history.time = history.failed.ended_at + 3
    history.ledger.crashed("a", power=power)
    lose_acknowledged(history)


@pytest.mark.parametrize(
    ("tail_s", "power", "found"),
    [(4.0, True, set()), (2.0, True, {"acknowledged is kept"}), (4.0, False, {"acknowledged is kept"})],
)
def test_asynchronous_flush_loses_a_short_tail_and_only_with_the_power(
    tail_s: float, power: bool, found: set[str]
) -> None:
    history = History()
    cut(history, tail_s, power)
    assert history.found() == found


def test_a_loss_of_power_takes_nothing_from_the_middle() -> None:
    history = History()
    cut(history, 100.0, True)
    history.view.queues[A0].messages[1].content = history.plain[0].content
    assert {"only the tail is lost"} <= history.found()


def test_lost_message_may_precede_survivors_of_the_next_power_loss() -> None:
    history = History()
    cut(history, 100.0, True)
    for _ in range(2):
        history.consume(history.kept(A1))
    history.ledger.crashed("a", power=True)
    assert history.found() == set()


def test_synchronous_flush_loses_nothing_with_the_power() -> None:
    history = History()
    cut(history, 100.0, True)
    history.promises = replace(history.promises, sync_flush=True)
    assert history.found() == {"acknowledged is kept"}


def test_message_during_a_deletion_is_optional_and_later_ones_are_kept() -> None:
    history = History()
    meets = history.sent()
    change = history.ledger.changing(TABLE, None)
    history.ledger.acknowledged(meets, Place(A0, 77))
    history.ledger.changed(change, Outcome.DONE)
    for queue in (A0, A1):
        history.view.queues[queue] = QueueView(0, 0)
    history.view.tables[TABLE] = None
    history.view.offsets.clear()
    assert history.found() == set()
    follows = history.sent()
    history.ledger.acknowledged(follows, Place(A0, 0))
    assert history.found() == {"acknowledged is kept"}


def test_a_change_without_answer_may_be_kept_and_one_that_was_refused_may_not() -> None:
    history = History()
    change = history.ledger.changing(TABLE, "4 queues")
    history.ledger.changed(change, Outcome.UNKNOWN)
    assert history.found() == set()
    history.view.tables[TABLE] = "4 queues"
    assert history.found() == set()
    change.outcome = Outcome.REFUSED
    assert history.found() == {"answered tables are kept"}


def test_each_member_of_a_broadcasting_group_reads_everything() -> None:
    history = History()
    history.group.broadcast = True
    history.group.members = {"m", "n"}
    assert history.found() == {"consumed at least once"}


def test_messages_skipped_by_an_operator_need_no_consumption() -> None:
    history = History()
    history.kept(A1)
    history.ledger.reset("g", A1, 3)
    assert history.found() == set()


def test_retention_may_take_the_oldest() -> None:
    history = History()
    history.promises = replace(history.promises, expires=True)
    view = history.view.queues[A0]
    view.first = 2
    del view.messages[:2]
    assert history.found() == set()


def test_a_crash_may_repeat_deliveries() -> None:
    history = History()
    deliver_twice(history)
    history.time = 130.0
    history.ledger.crashed("a")
    assert history.found() == set()


def test_a_request_without_an_answer_may_wait_for_its_broker() -> None:
    history = History()
    send = history.sent(Kind.DELAYED, due=3.0)
    history.time = send.began_at + 1.0
    history.ledger.unknown(send, "no connection")
    served = history.serve(A1, send)
    served.stored_at = history.time = send.began_at + 23.9
    history.consume(served)
    history.view.at = 200.0
    assert history.found() == {"not long after its time"}
    history.promises = replace(history.promises, faults_over_at=send.began_at + 20.0)
    assert history.found() == set()
    served.stored_at += 0.2
    assert history.found() == {"not long after its time"}


def test_a_producer_that_changes_its_mind_is_a_fault_of_the_harness() -> None:
    history = History()
    with pytest.raises(ValueError, match="decided before"):
        history.ledger.decided(history.half, Decision.ROLLBACK)


@pytest.mark.parametrize(("body", "number"), [(b"#17#rest", 17), (b"#17", 17), (b"17#", None), (b"##", None)])
def test_the_number_of_a_body(body: bytes, number: int | None) -> None:
    assert number_of(body) == number
