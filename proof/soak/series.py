"""Whether a measured series stays flat: the Theil-Sen slope after a warm-up, against a limit in absolute terms.

Theil-Sen takes the median of the slopes between all pairs of points, so a third of the points may be wild (a
checkpoint, a busy machine) without moving it. A series grows if its slope, over the time measured, amounts to more
than its limit, and if the slope is surely above zero: its lower confidence bound, by the variance of Kendall's rank
statistic, as Sen proposes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from math import sqrt
from statistics import median

POINTS = 120
"""A series is judged by at most so many medians of neighbours: the pairs of more points take minutes."""
FEWEST = 20
"""Points after the warm-up below which a series is not judged."""
SHORTEST_S = 240.0
"""Seconds after the warm-up below which a series is not judged: caches and file rolls look like growth."""
SURE = 2.576
"""Standard deviations of a two-sided 99 % confidence interval."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How much a series may rise: `once`, whatever the time, and `hourly` for each hour measured."""

    once: float
    hourly: float

    def over(self, seconds: float) -> float:
        """The rise that is allowed in so many seconds."""
        return self.once + self.hourly * seconds / 3600


class State(Enum):
    """What is known about a series."""

    FLAT = "flat"
    GROWS = "grows"
    NOT_JUDGED = "too short to judge"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of one series, and the figures it follows from."""

    state: State
    rise: float
    """What the slope amounts to over the time measured."""
    least: float
    """The same for the lower confidence bound of the slope."""
    allowed: float
    hourly: float
    """The slope, an hour."""


@dataclass(slots=True)
class Series:
    """One figure over the time: `name` says whose and what, `group` which plot it belongs to."""

    name: str
    group: str
    unit: str
    limit: Limit
    seconds: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, second: float, value: float) -> None:
        """One measurement, `second` after the start."""
        self.seconds.append(second)
        self.values.append(value)


def judge(series: Series, warm_up: float) -> Verdict:
    """Whether a series grows after the first `warm_up` seconds."""
    pairs = [(at, value) for at, value in zip(series.seconds, series.values, strict=True) if at >= warm_up]
    span = pairs[-1][0] - pairs[0][0] if pairs else 0.0
    allowed = series.limit.over(span)
    if len(pairs) < FEWEST or span < SHORTEST_S:
        return Verdict(State.NOT_JUDGED, 0.0, 0.0, allowed, 0.0)
    slope, least = slope_and_bound(thinned(pairs))
    grows = slope * span > allowed and least > 0
    return Verdict(State.GROWS if grows else State.FLAT, slope * span, least * span, allowed, slope * 3600)


def thinned(pairs: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most `POINTS` points: the median time and the median value of neighbours."""
    size = -(-len(pairs) // POINTS)
    runs = [pairs[at : at + size] for at in range(0, len(pairs), size)]
    return [(median(at for at, _ in run), median(value for _, value in run)) for run in runs]


def slope_and_bound(points: list[tuple[float, float]]) -> tuple[float, float]:
    """The Theil-Sen slope, and the lower end of its confidence interval. Times differ and rise."""
    slopes = sorted(
        (later - value) / (after - at)
        for index, (at, value) in enumerate(points)
        for after, later in points[index + 1 :]
    )
    count = len(points)
    deviation = sqrt(count * (count - 1) * (2 * count + 5) / 18)
    lowest = int((len(slopes) - SURE * deviation) / 2)
    return median(slopes), slopes[max(lowest, 0)]
