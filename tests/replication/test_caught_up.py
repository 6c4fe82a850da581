"""Since when a slave lacks something, as its master sees it."""

from __future__ import annotations

from bolide.replication.caught_up import NEVER, CaughtUp


def test_a_slave_that_has_all_lacks_nothing_however_long_ago_it_reported() -> None:
    one = CaughtUp()
    one.looked(-1, 100, 1000)
    one.reported(100)
    assert one.lag_ms(100, 100, 60_000) == 0


def test_a_slave_that_has_not_had_all_yet_says_so() -> None:
    one = CaughtUp()
    one.reported(50)
    one.looked(50, 100, 1000)
    assert one.lag_ms(50, 100, 5000) == NEVER
    one.reported(99)
    assert one.lag_ms(99, 100, 6000) == NEVER


def test_the_time_counts_from_when_the_log_grew_and_not_from_the_last_report() -> None:
    one = CaughtUp()
    one.looked(-1, 100, 1000)
    one.reported(100)
    one.looked(100, 150, 9000)
    assert one.lag_ms(100, 150, 9003) == 3
    one.looked(100, 200, 9500)
    assert one.lag_ms(100, 200, 10_000) == 1000, "more of the log does not make it fresher"


def test_under_a_steady_load_the_end_that_it_reached_says_when_it_had_all() -> None:
    one = CaughtUp()
    one.looked(-1, 100, 1000)
    one.reported(100)
    acked = 100
    for tick in range(1, 100):
        # Each turn brings 100 bytes, and after it the slave reports what the turn before brought.
        end, now = 100 + tick * 100, 1000 + tick * 10
        one.looked(acked, end, now)
        acked = end - 100
        one.reported(acked)
        assert one.lag_ms(acked, end, now) <= 20
    assert one.lag_ms(acked, end, now + 3000) in (3010, 3020), "the slave stands still"
