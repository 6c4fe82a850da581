"""Rates over three windows, how long sends took, and totals at midnight: what runtime info tells."""

from __future__ import annotations

import pytest

from bolide.broker.core.stats import DAY_MS, PUT_MS, PUT_TEXTS, QUIET_MS, SAMPLE_MS, BrokerStats, PutTimes

NOW = 1_700_000_000_000


class Ticked:
    """Counters that are looked at when they want to be."""

    def __init__(self) -> None:
        self.stats = BrokerStats(NOW)
        self.now = NOW
        self.ticks = 0

    def pass_time(self, milliseconds: int) -> None:
        end = self.now + milliseconds
        while (due := self.stats.due(self.now)) is not None and max(due, self.now) <= end:
            self.now = max(due, self.now)
            self.stats.tick(self.now, 1000)
            self.ticks += 1
        self.now = end

    def send(self, seconds: int, each_second: int) -> None:
        for _ in range(seconds):
            self.stats.put(each_second, 100)
            self.pass_time(SAMPLE_MS)

    def put_rates(self) -> list[float]:
        return [round(rate, 2) for rate in self.stats.rates(lambda sample: sample.put, self.now)]


def test_each_window_has_its_own_rate() -> None:
    ticked = Ticked()
    ticked.send(600, 10)
    ticked.send(60, 40)
    ticked.send(10, 100)
    ten, minute, ten_minutes = ticked.put_rates()
    assert ten == pytest.approx(100, rel=0.1)
    assert minute == pytest.approx((10 * 100 + 50 * 40) / 60, rel=0.05)
    assert ten_minutes == pytest.approx((530 * 10 + 60 * 40 + 10 * 100) / 600, rel=0.02)


def test_a_young_broker_tells_its_rate_since_the_start() -> None:
    ticked = Ticked()
    assert ticked.put_rates() == [0.0, 0.0, 0.0]
    ticked.send(4, 8)
    assert ticked.put_rates() == [8.0, 8.0, 8.0]


def test_traffic_after_a_quiet_time_is_not_spread_over_it() -> None:
    ticked = Ticked()
    ticked.pass_time(3_600_000 + QUIET_MS - 1)
    ticked.stats.put(50, 100)
    assert ticked.put_rates()[0] == pytest.approx(50 / 11, rel=0.01)
    ticked.send(10, 5)
    assert ticked.put_rates()[0] == pytest.approx(5, rel=0.1)
    ticked.pass_time(60_000 + 2 * SAMPLE_MS)
    assert ticked.put_rates()[:2] == [0.0, 0.0] and ticked.put_rates()[2] > 0


def test_a_quiet_broker_is_looked_at_seldom_and_a_busy_one_each_second() -> None:
    ticked = Ticked()
    ticked.pass_time(600_000)
    assert ticked.ticks <= 600_000 // QUIET_MS + 11  # ends of minutes
    before = ticked.ticks
    ticked.send(100, 1)
    assert 95 <= ticked.ticks - before <= 105


def test_pulls_that_found_nothing_have_a_rate() -> None:
    ticked = Ticked()
    for _ in range(20):
        ticked.stats.pulls_found += 1
        ticked.stats.pulls_missed += 3
        ticked.pass_time(SAMPLE_MS)
    assert ticked.stats.rates(lambda sample: sample.missed, ticked.now)[0] == pytest.approx(3, rel=0.1)
    assert ticked.stats.rates(lambda sample: sample.found, ticked.now)[0] == pytest.approx(1, rel=0.1)


def test_totals_of_two_midnights() -> None:
    ticked = Ticked()
    ticked.pass_time(DAY_MS - NOW % DAY_MS - 1)
    for messages in (5, 7, 11):
        ticked.stats.put(messages, 100)
        ticked.stats.got(2 * messages, 100)
        ticked.pass_time(DAY_MS)
    stats = ticked.stats
    assert (stats.put_yesterday, stats.put_morning, stats.put_messages) == (12, 23, 23)
    assert (stats.got_yesterday, stats.got_morning, stats.got_messages) == (24, 46, 46)


def test_the_last_minute_of_sends_as_java_tells_it() -> None:
    times = PutTimes()
    assert (times.text(), times.percentile(0.99)) == ("null", 0.0)
    for took, sends in ((0, 5), (-3, 1), (1, 10), (9, 4), (10, 2), (200, 3), (9_999, 1), (10_000, 1)):
        times.add(took, sends)
    assert times.text() == "null"
    times.end_minute()
    assert times.text() == (
        "[<=0ms]:6 [0~10ms]:14 [10~50ms]:2 [50~100ms]:0 [100~200ms]:0 [200~500ms]:3 [500ms~1s]:0 [1~2s]:0 [2~3s]:0 "
        "[3~4s]:0 [4~5s]:0 [5~10s]:1 [10s~]:1 "
    )
    assert times.longest == 10_000
    times.end_minute()
    assert times.text().startswith("[<=0ms]:0 [0~10ms]:0 ") and times.longest == 10_000
    assert sum(times.counts) == 27


def test_percentiles_lie_in_the_span_that_holds_them() -> None:
    times = PutTimes()
    times.add(2, 980)
    times.add(120, 15)
    times.add(30_000, 5)
    times.end_minute()
    assert 1 < times.percentile(0.5) <= 2
    assert 99 < times.percentile(0.99) <= 149
    assert times.percentile(0.999) == 30_000.0


def test_each_of_javas_spans_ends_at_a_bound() -> None:
    assert {last for last, _ in PUT_TEXTS} <= set(PUT_MS) and sorted(PUT_MS) == list(PUT_MS)
