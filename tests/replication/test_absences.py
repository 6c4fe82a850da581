"""A replica that stops again and again leaves the set, although no absence of it exceeds what one may take."""

from __future__ import annotations

import random

import pytest

from bolide.replication.absences import FACTOR, Absences
from bolide.replication.sync_set import SyncSet

GRACE, WINDOW, ALLOWED, PROBATION = 3_000, 120_000, 18_000, 30_000
PATIENCE = 15_000
SLAVES = (2, 3)


def absences() -> Absences:
    made = Absences(GRACE, WINDOW, ALLOWED, PROBATION)
    made.connected(2, 0)
    return made


def absent(made: Absences, begin: int, end: int, *, member: bool = True) -> None:
    """Replica 2 lacks what is stored from `begin` on until `end`."""
    made.looked(2, begin, begin + 1, begin, member=member)
    made.looked(2, begin + 1, begin + 1, end, member=member)


class Master:
    """A master of id 1 with replicas 2 and 3, who stores something every 100 ms, and its controller."""

    def __init__(self, least: int = 1) -> None:
        made = Absences(GRACE, WINDOW, ALLOWED, PROBATION)
        self.set = SyncSet(1, frozenset({1}), 1, 0, PATIENCE, made, least)
        self.set.answered(frozenset({1, *SLAVES}), 1, 0)
        self.end, self.now, self.epoch = 0, 0, 1
        self.said: list[str] = []
        self.members: list[tuple[int, frozenset[int]]] = []
        for each in SLAVES:
            self.set.connected(each, each, False, 0)
            self.set.reported(each, each, 0, 0, 0)

    def run(self, until: int, frozen: frozenset[int] = frozenset()) -> None:
        while self.now < until:
            self.now += 100
            self.end += 10
            for each in SLAVES:
                self.set.looked(each, each, self.end, self.now)
                if each not in frozen:
                    self.set.reported(each, each, self.end, self.end, self.now)
                    self.set.looked(each, each, self.end, self.now)
            self.set.confirmed(self.end)
            wanted = self.set.wanted(self.now)
            if wanted is not None:
                self.epoch += 1
                self.set.asked(wanted)
                self.said += self.set.answered(wanted, self.epoch, self.now)
                self.members.append((self.now, wanted))


def test_absences_within_the_window_are_summed() -> None:
    made = absences()
    absent(made, 1_000, 11_000)
    absent(made, 20_000, 28_000)
    assert made.absent_ms(2, 30_000) == 18_000 and not made.exceeded(2, 30_000)
    assert made.absent_ms(2, 125_000) == 14_000, "a part of the first one is outside of the window"
    assert made.absent_ms(2, 150_000) == 0


def test_an_absence_that_lasts_counts() -> None:
    made = absences()
    absent(made, 1_000, 11_000)
    made.looked(2, 20_000, 20_001, 20_000, member=True)
    assert not made.exceeded(2, 28_000) and made.exceeded(2, 28_001)


def test_short_gap_is_not_an_absence() -> None:
    made = absences()
    for begin in range(0, WINDOW, GRACE):
        absent(made, begin, begin + GRACE)
    assert made.absent_ms(2, WINDOW) == 0


def test_a_time_without_messages_is_no_absence() -> None:
    made = absences()
    made.looked(2, 100, 100, 1_000, member=True)
    made.looked(2, 100, 101, 90_000, member=True)
    made.looked(2, 101, 101, 90_010, member=True)
    assert made.absent_ms(2, 90_010) == 0


def test_a_replica_that_keeps_up_with_a_log_that_always_grows_is_not_absent() -> None:
    made = absences()
    for now in range(0, WINDOW, 1_000):
        made.looked(2, max(now - 1_000, 0), now, now, member=True)
    assert made.absent_ms(2, WINDOW) == 0


def test_absence_of_a_non_member_is_ignored() -> None:
    made = absences()
    absent(made, 1_000, 20_000, member=False)
    assert made.absent_ms(2, 20_000) == 0


def test_an_expelled_replica_returns_after_a_probation_that_grows() -> None:
    made, now, found = absences(), 0, list[int]()
    for _ in range(8):
        absent(made, now, now + ALLOWED + 1)
        now += ALLOWED + 1
        assert made.left(2, now) and not made.may_return(2, now)
        found.append(made.probation(2))
        now += found[-1]
        assert not made.may_return(2, now - 1) and made.may_return(2, now)
        made.joined(2, now)
        assert made.probation(2) == 0 and made.may_return(2, now)
    assert found == [PROBATION * factor for factor in (1, 2, 4, 8, 16, FACTOR, FACTOR, FACTOR)]
    now += PROBATION * FACTOR
    absent(made, now, now + ALLOWED + 1)
    made.left(2, now + ALLOWED + 1)
    assert made.probation(2) == PROBATION, "it was well for long"


@pytest.mark.parametrize("again", ["it is absent", "it connects"])
def test_a_probation_begins_again(again: str) -> None:
    made = absences()
    absent(made, 0, 20_000)
    made.left(2, 20_000)
    if again == "it connects":
        made.gone(2)
        made.connected(2, 40_000)
    else:
        absent(made, 36_000, 40_000, member=False)
    assert not made.may_return(2, 40_000 + PROBATION - 1) and made.may_return(2, 40_000 + PROBATION)


def test_strangers_leave_nothing_behind() -> None:
    made = absences()
    for stranger in range(10, 1_000):
        made.connected(stranger, 0)
        made.gone(stranger)
    assert list(made._replicas) == [2]


def test_a_replica_that_freezes_for_12_of_every_15_seconds_is_expelled() -> None:
    master = Master()
    for begin in range(1_000, 600_000, 15_000):
        master.run(begin + 12_000, frozenset({3}))
        master.run(begin + 15_000)
    (when, members), *more = master.members
    assert members == {1, 2} and when <= 25_000 and more == []
    assert master.set.expelled == 1
    assert master.said == [
        "replica 3 is expelled, because sends waited 18 s for it within 120 s; it may return after 30 s without a delay"
    ]
    master.run(master.now + PROBATION)
    assert master.set.members == {1, 2, 3} and master.set.expelled == 0


def test_single_absence_within_patience_does_not_expel() -> None:
    master = Master()
    master.run(1_000)
    master.run(15_500, frozenset({2, 3}))
    master.run(400_000)
    assert master.members == []


def test_a_replica_that_left_for_one_absence_returns_at_once() -> None:
    master = Master()
    master.run(20_000, frozenset({3}))
    master.run(21_000)
    assert [members for _, members in master.members] == [{1, 2}, {1, 2, 3}] and master.set.expelled == 0
    master.run(25_000, frozenset({3}))
    assert master.set.expelled == 1, "what it missed before it left counts"


def test_expulsion_keeps_the_required_members() -> None:
    master = Master(least=3)
    for begin in range(1_000, 300_000, 15_000):
        master.run(begin + 12_000, frozenset({3}))
        master.run(begin + 15_000)
    assert master.members == []


def test_a_probation_ends_when_the_set_has_too_few() -> None:
    master = Master(least=2)
    for begin in range(1_000, 60_000, 15_000):
        master.run(begin + 12_000, frozenset({3}))
        master.run(begin + 15_000)
    assert master.set.members == {1, 2}
    master.set.gone(2, 2)
    master.run(master.now + 1_000)
    assert master.set.members == {1, 3}


@pytest.mark.parametrize("seed", range(20))
def test_sends_wait_for_no_replica_for_more_than_its_share(seed: int) -> None:
    choose, master = random.Random(seed), Master()
    waited = 0
    while master.now < 1_200_000:
        begin = master.now + choose.randrange(5_000)
        master.run(begin)
        frozen, end = choose.choice(SLAVES), begin + choose.randrange(15_000)
        counted = frozen in master.set.members
        master.run(end, frozenset({frozen}))
        waited += (end - begin) if counted and end - begin > GRACE else 0
    # Each of both: once what is allowed and the absence in which that was exceeded, then as much at each return.
    assert waited <= 2 * (ALLOWED + PATIENCE) * 6
