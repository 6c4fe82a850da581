"""How many machines a send waits for, where that goes by how many are there."""

from __future__ import annotations

from bolide.replication.auto_in_sync import AutoInSync


def in_sync(most: int = 2, least: int = 1, end: int = 0, alive: int = 3) -> AutoInSync:
    return AutoInSync(most=most, least=least, timeout=3000, max_gap=1000, end=end, alive=alive)


def test_alone_nothing_is_waited_for() -> None:
    alone = in_sync()
    assert alone.waits
    assert alone.holds_back(100, 0) == 100
    assert not alone.late(100) and not alone.short(100)
    assert alone.due() == -1


def test_with_a_slave_in_sync_it_is_waited_for() -> None:
    two = in_sync()
    two.reported(1, 0)
    assert two.holds_back(100, 0) == 0
    two.reported(1, 60)
    assert two.holds_back(100, 1) == 60
    assert two.late(100)
    two.reported(1, 100)
    assert two.holds_back(100, 2) == 100
    assert not two.late(100)


def test_a_claimed_end_makes_a_send_wait_and_acknowledges_nothing() -> None:
    two = in_sync()
    two.claimed(1, 100)
    assert two.holds_back(100, 0) == 0
    assert two.late(100) and two.count(100) == 2
    two.reported(1, 100)
    assert two.holds_back(100, 1) == 100
    two.gone(1)
    assert two.count(100) == 1


def test_pending_record_still_waits_after_the_slave_leaves() -> None:
    two = in_sync()
    two.reported(1, 0)
    two.holds_back(100, 0)
    two.gone(1)
    assert two.holds_back(200, 1000) == 0, "the first record was to be held by two"
    assert two.holds_back(200, 3000) == 200
    assert two.late(100) and not two.late(200), "the second one was not"


def test_a_fixed_number_is_not_lowered_and_sends_are_refused() -> None:
    two = in_sync(most=2, least=2)
    assert two.short(100)
    two.reported(1, 100)
    assert not two.short(100)
    assert two.short(1100), "the slave lags too far behind"
    assert two.holds_back(200, 0) == 100


def test_at_least_so_many_are_waited_for() -> None:
    three = in_sync(most=3, least=2)
    three.reported(1, 0)
    assert not three.short(0)
    assert three.holds_back(100, 0) == 0
    three.reported(1, 100)
    assert three.holds_back(100, 0) == 100
    three.reported(2, 100)
    three.reported(1, 200)
    assert three.holds_back(200, 0) == 100, "three are there now, so three are waited for"
    three.reported(2, 200)
    assert three.holds_back(200, 0) == 200


def test_dead_slave_does_not_count() -> None:
    two = in_sync(alive=1)
    two.reported(1, 0)
    assert two.count(0) == 1
    assert two.holds_back(100, 0) == 100
    two.alive = 2
    assert two.holds_back(200, 0) == 100


def test_acknowledged_offset_never_falls() -> None:
    two = in_sync(least=2)
    two.reported(1, 100)
    two.gone(1)
    two.reported(2, 30)
    assert two.holds_back(150, 0) == 100
    assert not two.late(100) and two.late(150)
    assert two.acknowledged == 100


def test_memory_of_needs_is_bounded() -> None:
    two = in_sync()
    for step in range(1, 10_000):
        two.alive = 1 + step % 2
        two.reported(1, step)
        two.holds_back(step, step)
    assert len(two._needs) <= 64 and len(two._marks) <= 1
