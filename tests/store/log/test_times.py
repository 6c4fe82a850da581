"""Steady times and the wall clock's: what a time in a record means after somebody set the clock."""

from __future__ import annotations

from bolide.store.log.times import StoreTimes


def test_both_are_the_same_until_the_clock_is_set() -> None:
    times = StoreTimes()
    assert (times.wall(100), times.steady(100), times.steady(100, 7)) == (100, 100, 100)


def test_a_time_in_a_record_is_read_as_the_clock_was_when_it_was_stored() -> None:
    times = StoreTimes()
    times.step(-1_000, 50)
    times.step(500, 80)
    assert (times.wall(10_000), times.steady(10_500)) == (10_500, 10_000)
    assert [times.steady(10_000, offset) for offset in (0, 49, 50, 79, 80)] == [10_000, 10_000, 11_000, 11_000, 9_500]
