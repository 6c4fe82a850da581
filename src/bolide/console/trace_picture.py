"""Draws the trace of a message as a timeline with one bar per step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bolide.client.tracing.trace import CONSUME_BEGINS, CONSUME_ENDS, SENT, SUCCESS, TRANSACTION_ENDS, TraceContext

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


@dataclass(frozen=True, slots=True)
class _Step:
    label: str
    told: str
    kind: str
    begin: int
    cost: int


def picture(steps: list[TraceContext]) -> Picture | None:
    """Return the timeline, or None if no step has a time."""
    found = [step for step in _steps(steps) if step.begin > 0]
    if not found:
        return None
    found.sort(key=lambda step: (step.begin, step.label))
    shown = found[:MOST_ROWS]
    begin = shown[0].begin
    end = max(max(step.begin + step.cost for step in shown), begin + 1)
    scale = (WIDTH - LEFT - 20) / (end - begin)
    bars = []
    for number, step in enumerate(shown):
        width = max(step.cost * scale, LEAST)
        x = min(LEFT + (step.begin - begin) * scale, WIDTH - width)
        bars.append(
            Bar(step.label, step.told, step.kind, step.begin, step.cost, round(x, 1), round(width, 1), number * ROW)
        )
    return Picture(bars, len(bars) * ROW + 26, begin, end, len(found) - len(shown))


def _steps(steps: list[TraceContext]) -> list[_Step]:
    """Return the sends, the ends of transactions, and the listener calls, each joined with its end if traced."""
    ends = {step.request_id: step for step in steps if step.kind == CONSUME_ENDS}
    found = []
    for step in steps:
        bean = step.beans[0]
        if step.kind == SENT:
            told = "stored" if step.success else "failed"
            found.append(
                _Step(f"send by {step.group}", told, "sent" if step.success else "bad", step.timestamp, step.cost_ms)
            )
        elif step.kind == TRANSACTION_ENDS:
            told = bean.transaction_state + (" after a check" if bean.from_check else "")
            found.append(_Step(f"transaction of {step.group}", told, "sent", step.timestamp, 0))
        elif step.kind == CONSUME_BEGINS:
            end = ends.get(step.request_id)
            label = f"consume by {step.group}" + (f", retry {bean.retry_times}" if bean.retry_times else "")
            if end is None:
                found.append(_Step(label, "started, end not reported", "open", step.timestamp, 0))
            else:
                good = end.success and end.context_code == SUCCESS
                told = "consumed" if good else "failed"
                found.append(_Step(label, told, "consumed" if good else "bad", step.timestamp, end.cost_ms))
    return found
