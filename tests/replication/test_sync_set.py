"""Who confirms a master's log: what is confirmed is held by everybody who may be elected."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from bolide.replication.sync_set import JOIN_MS, SyncSet

PATIENCE = 15_000


def alone() -> SyncSet:
    return SyncSet(1, frozenset({1}), 1, 100, PATIENCE)


def pair() -> SyncSet:
    """A master and a member that holds the log up to 100."""
    made = alone()
    made.connected(7, 2, False, 0)
    made.reported(7, 2, 100, 100, 0)
    made.asked(frozenset({1, 2}))
    made.answered(frozenset({1, 2}), 2, 0)
    return made


def test_a_master_alone_confirms_what_it_has() -> None:
    assert alone().confirmed(500) == 500


def test_a_slave_joins_when_it_holds_what_is_confirmed() -> None:
    made = alone()
    made.confirmed(300)
    made.connected(7, 2, False, 0)
    made.reported(7, 2, 299, 299, 0)
    assert made.wanted(0) is None
    made.reported(7, 2, 300, 300, 0)
    assert made.wanted(0) == {1, 2}


def test_a_slave_before_the_epoch_or_a_learner_does_not_join() -> None:
    made = alone()
    made.connected(7, 2, False, 0)
    made.reported(7, 2, 99, 99, 0)
    made.connected(8, 3, True, 0)
    made.reported(8, 3, 100, 100, 0)
    assert made.wanted(0) is None


def test_outsiders_are_connected_replicas_that_could_join() -> None:
    made = pair()
    for replica, learner in ((3, False), (4, True)):
        made.connected(replica, replica, learner, 0)
    assert made.outsiders == {3}


def test_while_the_question_is_on_its_way_both_sets_count() -> None:
    made = alone()
    made.connected(7, 2, False, 0)
    made.reported(7, 2, 100, 100, 0)
    made.asked(frozenset({1, 2}))
    assert made.confirmed(500) == 100, "the controller may have taken it"
    assert made.wanted(0) is None, "one question at a time"
    made.refused(0)
    assert made.confirmed(500) == 500
    other = pair()
    assert other.confirmed(500) == 100
    other.gone(7, 2)
    assert other.wanted(0) == {1}
    other.asked(frozenset({1}))
    assert other.confirmed(500) == 100, "the old member may still be elected"
    other.answered(frozenset({1}), 3, 0)
    assert other.confirmed(500) == 500


def test_a_member_without_a_connection_freezes_what_is_confirmed() -> None:
    made = pair()
    made.reported(7, 2, 200, 300, 0)
    assert made.confirmed(300) == 200
    made.gone(7, 2)
    assert made.confirmed(300) == 200
    assert not made.held_by_all(300)
    made.connected(8, 2, False, 0)
    made.gone(7, 2)
    made.reported(7, 2, 900, 900, 0)
    assert made.confirmed(300) == 200, "the old connection counts no more"
    made.reported(8, 2, 300, 300, 0)
    assert made.held_by_all(300)
    assert made.holders(300) == 2


def test_a_member_that_does_not_catch_up_leaves() -> None:
    made = pair()
    made.reported(7, 2, 150, 300, 1000)
    assert made.wanted(PATIENCE) is None
    assert made.wanted(PATIENCE + 1) == {1}
    made.reported(7, 2, 300, 300, PATIENCE)
    assert made.wanted(PATIENCE + 1) is None


def test_member_with_the_whole_log_stays_without_reports() -> None:
    made = pair()
    made.looked(7, 2, 100, 0)
    assert made.wanted(5 * PATIENCE) is None
    made.looked(7, 2, 200, 5 * PATIENCE)
    made.looked(7, 2, 300, 5 * PATIENCE + 1)
    assert made.wanted(6 * PATIENCE) is None, "it lacks something only since the log grew"
    assert made.wanted(6 * PATIENCE + 1) == {1}


def returns(made: SyncSet, key: int) -> None:
    """Replica 2 has a new connection, and holds the whole log."""
    made.connected(key, 2, False, 0)
    made.reported(key, 2, 100, 100, 0)


def leaves_and_joins(made: SyncSet) -> None:
    assert made.wanted(0) == {1}
    made.asked(frozenset({1}))
    assert made.confirmed(500) == 100, "it is electable until the controller has removed it"
    made.answered(frozenset({1}), made.set_epoch + 1, 0)
    assert made.wanted(0) == {1, 2}
    made.asked(frozenset({1, 2}))
    made.answered(frozenset({1, 2}), made.set_epoch + 1, 0)
    assert made.wanted(0) is None


def test_member_that_returns_before_the_controller_is_asked_leaves_and_joins() -> None:
    made = pair()
    made.gone(7, 2)
    returns(made, 8)
    leaves_and_joins(made)


def test_member_whose_new_connection_replaces_the_old_one_leaves_and_joins() -> None:
    made = pair()
    returns(made, 8)
    assert not made.gone(7, 2)
    leaves_and_joins(made)


def test_member_that_returns_while_its_removal_is_rejected_leaves_and_joins() -> None:
    """Its start changed the epoch of the set, so the controller rejected the request that was pending."""
    made = pair()
    made.gone(7, 2)
    made.asked(frozenset({1}))
    returns(made, 8)
    made.answered(frozenset({1, 2}), 3, 0)
    leaves_and_joins(made)


@pytest.mark.parametrize("accepted", [True, False])
def test_replica_whose_connection_ends_while_it_is_proposed_leaves_and_joins(accepted: bool) -> None:
    made = alone()
    returns(made, 7)
    made.asked(frozenset({1, 2}))
    made.gone(7, 2)
    returns(made, 8)
    if not accepted:
        made.refused(0)
        assert made.wanted(1000) == {1, 2}
        made.asked(frozenset({1, 2}))
        made.answered(frozenset({1, 2}), 2, 1000)
        assert made.wanted(1000) is None
        return
    made.answered(frozenset({1, 2}), 2, 0)
    leaves_and_joins(made)


def test_member_that_this_master_has_not_seen_join_leaves_and_joins() -> None:
    """A master that takes office again had no connections, so a member may have restarted."""
    made = SyncSet(1, frozenset({1, 2}), 2, 100, PATIENCE)
    returns(made, 8)
    leaves_and_joins(made)


def test_a_replica_that_the_controller_does_not_take_keeps_nobody_else_in_or_out() -> None:
    made = pair()
    made.connected(8, 9, False, 0)
    made.reported(8, 9, 100, 100, 0)
    assert made.wanted(0) == {1, 2, 9}
    made.asked(frozenset({1, 2, 9}))
    made.refused(0)
    made.connected(10, 12, False, 0)
    made.reported(10, 12, 100, 100, 0)
    assert made.wanted(0) == {1, 2, 12}, "alone, and before the one that was refused"
    made.gone(7, 2)
    assert made.wanted(0) == {1}, "nobody comes with one that leaves"


def under_load() -> SyncSet:
    """A slave that keeps up, while what the master alone confirms is always ahead of it."""
    made = alone()
    made.confirmed(200)
    made.connected(7, 2, False, 0)
    made.reported(7, 2, 150, 300, 0)
    made.count_ahead(0)
    assert made.confirmed(400) == 400, "it had not caught up when it connected"
    made.reported(7, 2, 300, 300, 10)
    return made


def test_a_slave_joins_under_a_load_that_never_ends() -> None:
    made = under_load()
    assert made.wanted(10) is None
    made.count_ahead(10)
    assert made.confirmed(500) == 400, "what is stored from now on waits for it"
    made.reported(7, 2, 400, 400, 20)
    made.count_ahead(20)
    assert made.wanted(20) == {1, 2}
    made.asked(frozenset({1, 2}))
    assert (made.confirmed(600), made.joining_until) == (400, -1), "now it counts because it is asked for"


def test_a_slave_that_counts_ahead_delays_nobody_for_long() -> None:
    made = under_load()
    made.count_ahead(10)
    assert made.joining_until == 10 + JOIN_MS
    made.count_ahead(9 + JOIN_MS)
    assert made.confirmed(500) == 400
    made.count_ahead(10 + JOIN_MS)
    assert made.confirmed(500) == 500
    made.reported(7, 2, 450, 450, 20 + JOIN_MS)
    made.count_ahead(20 + JOIN_MS)
    assert made.joining_until == -1, "not again at once"
    made.reported(7, 2, 450, 450, 20 + PATIENCE)
    made.count_ahead(20 + PATIENCE)
    assert made.joining_until > 0
    made.gone(7, 2)
    assert (made.joining_until, made.confirmed(600)) == (-1, 600)


def test_a_replica_that_is_refused_counts_ahead_less_and_less_often() -> None:
    made = under_load()
    now, times = 10, []
    for _ in range(60_000):
        now += 10
        made.reported(7, 2, 450, 450, now)
        end = made.confirmed(500)
        before = made.joining_until
        made.count_ahead(now)
        if made.joining_until > before:
            times.append(now)
            made.reported(7, 2, end, end, now)
            made.asked(made.wanted(now) or frozenset())
            made.refused(now)
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses == sorted(pauses) and pauses[-1] > 3 * pauses[0] >= 3 * PATIENCE


def test_a_learner_and_one_before_the_epoch_do_not_count_ahead() -> None:
    made = alone()
    made.confirmed(500)
    made.connected(7, 2, True, 0)
    made.reported(7, 2, 300, 300, 0)
    made.connected(8, 3, False, 0)
    made.reported(8, 3, 99, 99, 0)
    made.count_ahead(0)
    assert made.joining_until == -1


def test_a_replica_that_is_refused_is_asked_for_less_and_less_often() -> None:
    made = pair()
    made.connected(8, 9, False, 0)
    made.reported(8, 9, 100, 100, 0)
    assert made.again_at(0) == -1
    now, pauses = 0, []
    for _ in range(8):
        made.reported(7, 2, 100, 100, now)
        assert made.wanted(now) == {1, 2, 9}
        made.asked(frozenset({1, 2, 9}))
        made.refused(now)
        again = made.again_at(now)
        assert made.wanted(again - 1) is None and made.wanted(again) == {1, 2, 9}
        pauses.append(again - now)
        now = again
    assert pauses == [200, 400, 800, 1600, 3200, 5000, 5000, 5000]
    made.connected(10, 12, False, now)
    made.reported(10, 12, 100, 100, now)
    made.asked(frozenset({1, 2, 9}))
    made.refused(now)
    assert made.wanted(now) == {1, 2, 12}, "nobody else waits"
    made.answered(frozenset({1, 2, 9}), 3, 0)
    assert made.again_at(now) == -1


def test_an_older_set_changes_nothing() -> None:
    made = pair()
    made.answered(frozenset({1}), 1, 0)
    assert (made.members, made.set_epoch) == ({1, 2}, 2)


@pytest.mark.parametrize("seed", range(100))
def test_confirmed_offset_is_held_by_every_electable_replica(seed: int) -> None:
    """Questions to the controller may be taken and their answers lost."""
    draw = random.Random(seed)
    made = alone()
    controller, number = frozenset({1}), 1
    holds = {1: 100, 2: 0, 3: 0}
    keys: dict[int, int] = {}
    question: frozenset[int] | None = None
    for now in range(0, 300_000, 1000):
        holds[1] += draw.randrange(50)
        for slave in (2, 3):
            if slave not in keys and draw.random() < 0.3:
                keys[slave] = now
                made.connected(now, slave, False, now)
            elif slave in keys and draw.random() < 0.1:
                made.gone(keys.pop(slave), slave)
            if slave in keys and draw.random() < 0.7:
                holds[slave] = draw.randint(holds[slave], holds[1])
                made.reported(keys[slave], slave, holds[slave], holds[1] - 20, now)
        if draw.random() < 0.8:
            made.count_ahead(now)
        confirmed = made.confirmed(holds[1])
        assert all(holds[member] >= confirmed for member in controller), "an elected member would lose it"
        if question is None:
            question = made.wanted(now)
            if question is not None:
                made.asked(question)
        elif draw.random() < 0.4:
            if question == controller or draw.random() < 0.7:
                controller, number = question, number + 1
                made.answered(controller, number, 0)
            else:
                made.refused(now)
            question = None
        elif question != controller and draw.random() < 0.2:
            controller = question  # taken, and not heard of yet
