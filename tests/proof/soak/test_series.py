"""The judgement of a series: a leak is red, whatever noise it hides in, and what comes and goes is not."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from math import sin

import pytest

from proof.soak.samples import BLOCKS, DESCRIPTORS, DISK, MEMORY, OWED_S, distribution
from proof.soak.series import FEWEST, POINTS, SHORTEST_S, Limit, Series, State, judge, thinned

HALF_HOUR, EVERY = 1800.0, 10.0


def measured(limit: Limit, value: Callable[[float], float], seconds: float = HALF_HOUR, noise: float = 0.0) -> Series:
    """A series whose value is a function of the time, with the same noise in each run."""
    series = Series("x", "y", "", limit)
    chance = random.Random(1)
    for at in range(int(seconds / EVERY)):
        series.add(at * EVERY, value(at * EVERY) + chance.gauss(0, noise))
    return series


@pytest.mark.parametrize(
    ("limit", "noise", "value"),
    [
        (MEMORY, 2, lambda second: 60),
        (MEMORY, 0, lambda second: 60 + 4 * min(second / 300, 1)),  # it has had its fill
        (MEMORY, 0.5, lambda second: 60 + 2 * second / 3600),  # within the limit
        (BLOCKS, 0, lambda second: 300_000 + second * 7 % 15_000),  # cycles that the collector frees
        (DISK, 0, lambda second: 5 + second / 30 % 8),  # retention comes by
        (DESCRIPTORS, 0, lambda second: 40 + 10 * sin(second / 60)),
        (MEMORY, 0, lambda second: 60 + (200 if 900 <= second < 1000 else 0)),  # something happened, and is over
        (MEMORY, 0, lambda second: 90 - second / 100),
        (Limit(0, 0), 0, lambda second: 7.0),
    ],
)
def test_series_within_its_limit_is_flat(limit: Limit, noise: float, value: Callable[[float], float]) -> None:
    assert judge(measured(limit, value, noise=noise), 300).state is State.FLAT


@pytest.mark.parametrize(
    ("limit", "noise", "value"),
    [
        (BLOCKS, 0, lambda second: 300_000 + 25 * second),  # one object kept of each message, at 25 a second
        (BLOCKS, 10_000, lambda second: 300_000 + 25 * second),
        (BLOCKS, 0, lambda second: 300_000 + 25 * second + second * 7 % 15_000),
        (MEMORY, 3, lambda second: 60 + 40 * second / 3600),  # 400 bytes of each message
        (DESCRIPTORS, 0, lambda second: 40 + second // 60),  # one in a minute
        (DISK, 0, lambda second: 20 + second / 30),  # nothing is deleted
        (Limit(OWED_S * 25, 0), 0, lambda second: 1.0 * second),  # a reader that is one message a second too slow
    ],
)
def test_rising_series_is_found(limit: Limit, noise: float, value: Callable[[float], float]) -> None:
    assert judge(measured(limit, value, noise=noise), 300).state is State.GROWS


def test_the_warm_up_does_not_count() -> None:
    series = measured(MEMORY, lambda second: 20 + min(second, 1200) / 20)
    assert judge(series, 1200).state is State.FLAT
    assert judge(series, 0).state is State.GROWS


def test_a_rise_that_may_be_chance_is_not_called_growth() -> None:
    verdict = judge(measured(Limit(5, 0), lambda second: second / 30, 400, noise=20), 0)
    assert verdict.rise > verdict.allowed
    assert (verdict.least < 0, verdict.state) == (True, State.FLAT)


def test_a_short_run_is_not_judged() -> None:
    for seconds in (EVERY, SHORTEST_S):
        assert judge(measured(MEMORY, lambda second: second, seconds), 0).state is State.NOT_JUDGED
    few = Series("x", "y", "", MEMORY)
    for at in range(FEWEST - 1):
        few.add(at * 1000, at * 1000)
    assert judge(few, 0).state is State.NOT_JUDGED
    few.add(FEWEST * 1000, FEWEST * 1000)
    assert judge(few, 0).state is State.GROWS
    assert judge(Series("x", "y", "", MEMORY), 0).state is State.NOT_JUDGED


def test_many_points_become_few_in_their_order() -> None:
    points = thinned([(float(at), 2.0 * at) for at in range(5003)])
    assert len(points) <= POINTS
    assert all(value == 2 * at for at, value in points)
    assert all(earlier[0] < later[0] for earlier, later in pairwise(points))


def test_the_rise_and_the_slope_are_told() -> None:
    verdict = judge(measured(Limit(1, 2), lambda second: second / 360), 300)
    assert verdict.hourly == pytest.approx(10)
    assert verdict.rise == pytest.approx(verdict.least) == pytest.approx((HALF_HOUR - EVERY - 300) / 360)
    assert verdict.allowed == pytest.approx(1 + 2 * (HALF_HOUR - EVERY - 300) / 3600)


def test_a_distribution_of_the_broker_is_read() -> None:
    text = "[<=0ms]:5 [0~5ms]:1 [5~10ms]:0 [20~50ms]:3 [1000ms~]:2"
    assert distribution(text) == {0: 6, 5: 0, 20: 3, 1000: 2}
    assert distribution("null") == {}
