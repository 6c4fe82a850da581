"""Draws the trace of a message as a timeline with one bar per step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bolide.admin.tracing import CONSUME, SEND, TRANSACTION, TracedStep

WIDTH: Final = 1000
LEFT: Final = 260
"""Width of the column of names."""
ROW: Final = 34
LEAST: Final = 6
"""Minimum width of a bar."""
MOST_ROWS: Final = 60


@dataclass(frozen=True, slots=True)
class Bar:
    """A step. `kind` is the CSS class of its colour. `begin` is in ms since 1970, `cost` in ms; x, y and width are in
    units of the picture."""

    label: str
    told: str
    kind: str
    begin: int
    cost: int
    x: float
    width: float
    y: int


@dataclass(frozen=True, slots=True)
class Picture:
    """The bars, and the start and end of the time scale in ms. `left_out` is the number of steps without a bar."""

    bars: list[Bar]
    height: int
    begin: int
    end: int
    left_out: int


def picture(steps: Sequence[TracedStep]) -> Picture | None:
    """Return the timeline, or None if no step has a time."""
    found = sorted((step for step in steps if step.begin > 0), key=lambda step: (step.begin, label_of(step)))
    if not found:
        return None
    shown = found[:MOST_ROWS]
    begin = shown[0].begin
    end = max(max(step.begin + (step.cost_ms or 0) for step in shown), begin + 1)
    scale = (WIDTH - LEFT - 20) / (end - begin)
    bars = []
    for number, step in enumerate(shown):
        cost = step.cost_ms or 0
        width = max(cost * scale, LEAST)
        x = min(LEFT + (step.begin - begin) * scale, WIDTH - width)
        place = round(x, 1), round(width, 1), number * ROW
        bars.append(Bar(label_of(step), step.status, _colour(step), step.begin, cost, *place))
    return Picture(bars, len(bars) * ROW + 26, begin, end, len(found) - len(shown))


def label_of(step: TracedStep) -> str:
    """Return the text next to a step's bar."""
    words = {SEND: "send by", TRANSACTION: "transaction of", CONSUME: "consume by"}
    return f"{words[step.kind]} {step.group}" + (f", retry {step.retries}" if step.retries else "")


def _colour(step: TracedStep) -> str:
    if step.failed:
        return "bad"
    if step.kind == CONSUME:
        return "open" if step.cost_ms is None else "consumed"
    return "sent"
