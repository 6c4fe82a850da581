"""How far the log is held by enough machines, and how long that is waited for."""

from __future__ import annotations

from bolide.replication.in_sync import NO_CAP, InSync


def in_sync(needed: int = 2, end: int = 0) -> InSync:
    return InSync(needed=needed, timeout=3000, max_gap=1000, end=end)


def test_with_one_machine_nothing_is_waited_for() -> None:
    alone = in_sync(needed=1)
    assert alone.holds_back(100, 0) == NO_CAP
    assert not alone.late(100)
    assert alone.due() == -1


def test_a_record_is_held_back_until_a_slave_holds_it() -> None:
    two = in_sync(end=50)
    assert two.holds_back(50, 0) == 50
    assert two.holds_back(100, 0) == 50
    two.reported(1, 80)
    assert two.holds_back(100, 1) == 80
    assert not two.late(80)
    assert two.late(81)
    two.reported(1, 100)
    assert two.holds_back(100, 2) == 100
    assert two.due() == -1


def test_after_its_time_a_record_is_released_and_late() -> None:
    two = in_sync()
    two.holds_back(100, 0)
    two.holds_back(200, 1000)
    assert two.due() == 3000
    assert two.holds_back(200, 2999) == 0
    assert two.holds_back(200, 3000) == 100
    assert two.late(100)
    assert two.due() == 4000
    assert two.holds_back(200, 4000) == 200
    assert two.holds_back(300, 5000) == 200, "the next record waits for its own time"


def test_so_many_slaves_as_asked_for_must_hold_it() -> None:
    three = in_sync(needed=3)
    three.holds_back(100, 0)
    three.reported(1, 100)
    assert three.holds_back(100, 0) == 0
    three.reported(2, 60)
    assert three.holds_back(100, 0) == 60
    three.reported(3, 90)
    assert three.holds_back(100, 0) == 90


def test_a_claimed_end_acknowledges_nothing_and_counts_as_in_sync() -> None:
    two = in_sync()
    two.holds_back(100, 0)
    two.claimed(1, 100)
    assert (two.holds_back(100, 0), two.late(100), two.count(100)) == (0, True, 2)
    two.reported(1, 100)
    assert (two.holds_back(100, 0), two.late(100), two.count(100)) == (100, False, 2)
    two.claimed(2, 100)
    two.gone(1)
    two.gone(2)
    assert two.count(100) == 1


def test_acknowledged_offset_survives_loss_of_the_slave() -> None:
    two = in_sync()
    two.reported(1, 100)
    two.gone(1)
    assert two.holds_back(150, 0) == 100
    two.reported(2, 30)
    assert two.holds_back(150, 0) == 100


def test_marks_of_one_moment_are_one() -> None:
    two = in_sync()
    for step in range(100_000):
        two.holds_back(step, step // 100)
    assert len(two._marks) <= 101


def test_slave_is_in_sync_by_its_distance() -> None:
    two = in_sync()
    two.reported(1, 500)
    two.reported(2, 1500)
    assert two.count(1499) == 3
    assert two.count(1500) == 2
    assert two.keeps_up(500, 1499)
    assert not two.keeps_up(-1, 0), "it has not said what it holds"
    two.gone(2)
    assert two.count(1499) == 2
