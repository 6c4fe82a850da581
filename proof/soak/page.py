"""The page of a soak: verdict, what was checked, one plot for each kind of figure; one file that needs no network."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from proof.soak.series import POINTS, Series, State, Verdict, thinned

COLOURS = ("#2563eb", "#ea580c", "#059669", "#9333ea", "#64748b", "#db2777", "#ca8a04", "#0891b2")
WIDTH, HEIGHT = 940, 220
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 12, 28
TICKS = 4
ENTRY = 170
"""Width of an entry of the legend."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the summary: what was expected, and what came."""

    what: str
    expected: str
    found: str
    good: bool


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that the page shows."""

    title: str
    verdict: str
    good: bool
    checks: Sequence[Check]
    judged: Sequence[tuple[Series, Verdict]]
    warm_up: float
    facts: dict[str, str]


def write_page(path: Path, report: Report) -> None:
    """Write the page."""
    checks = "".join(
        f'<tr class="{"good" if check.good else "bad"}"><td>{html.escape(check.what)}</td>'
        f"<td>{html.escape(check.expected)}</td><td>{html.escape(check.found)}</td>"
        f"<td>{'✓' if check.good else '✗'}</td></tr>"
        for check in report.checks
    )
    groups: dict[str, list[tuple[Series, Verdict]]] = {}
    for series, verdict in report.judged:
        groups.setdefault(series.group, []).append((series, verdict))
    figures = "".join(figure(name, members, report.warm_up) for name, members in groups.items())
    facts = "".join(f"<dt>{html.escape(key)}</dt><dd>{html.escape(value)}</dd>" for key, value in report.facts.items())
    page = PAGE.format(
        title=html.escape(report.title), state="good" if report.good else "bad", verdict=html.escape(report.verdict),
        checks=checks, series="".join(row(series, verdict) for series, verdict in report.judged), figures=figures,
        facts=facts,
    )  # fmt: skip
    path.write_text(page, encoding="utf-8")


def row(series: Series, verdict: Verdict) -> str:
    """A line of the table of series."""
    unit = f" {series.unit}" if series.unit else ""
    mark = {State.FLAT: "✓", State.GROWS: "✗", State.NOT_JUDGED: "·"}[verdict.state]
    state = {State.FLAT: "good", State.GROWS: "bad", State.NOT_JUDGED: ""}[verdict.state]
    judged = verdict.state is not State.NOT_JUDGED
    cells = (
        f"{series.group}: {series.name}",
        number(series.values[0]) + unit,
        number(series.values[-1]) + unit,
        f"{verdict.hourly:+,.3g}{unit}/h" if judged else "",
        f"{verdict.rise:+,.3g}{unit}" if judged else "",
        f"{verdict.allowed:,.3g}{unit}",
        verdict.state.value,
        mark,
    )
    return f'<tr class="{state}">' + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"


def figure(name: str, members: Sequence[tuple[Series, Verdict]], warm_up: float) -> str:
    """One plot with the series of a group."""
    unit = next((series.unit for series, _ in members if series.unit), "")
    caption = name + (f" ({unit})" if unit else "")
    return f"<figure><figcaption>{html.escape(caption)}</figcaption>{plot(members, warm_up)}</figure>"


def plot(members: Sequence[tuple[Series, Verdict]], warm_up: float) -> str:
    """The lines of several series over the same axes, as SVG. Series that grow are drawn thick."""
    end = max(max(series.seconds) for series, _ in members) or 1.0
    top = ceiling(max(max(series.values) for series, _ in members))
    per_row = (WIDTH - LEFT) // ENTRY
    total = HEIGHT + 18 * -(-len(members) // per_row)

    def x(second: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * second / end

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * max(value, 0) / top

    parts = [f'<svg viewBox="0 0 {WIDTH} {total}" role="img" xmlns="http://www.w3.org/2000/svg">']
    if 0 < warm_up < end:
        parts.append(
            f'<rect x="{LEFT}" y="{TOP}" width="{x(warm_up) - LEFT:.1f}" height="{HEIGHT - TOP - BOTTOM}" '
            'fill="#f1f5f9"/>'
        )
    for tick in range(TICKS + 1):
        value = top * tick / TICKS
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#e4e7eb"/>'
            f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{number(value)}</text>'
        )
        second = end * tick / TICKS
        anchor = "end" if tick == TICKS else "middle"
        parts.append(f'<text x="{x(second):.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{clock(second, end)}</text>')
    for index, (series, verdict) in enumerate(members):
        points = list(zip(series.seconds, series.values, strict=True))
        shown = thinned(points) if len(points) > POINTS else points
        line = " ".join(f"{x(second):.1f},{y(value):.1f}" for second, value in shown)
        colour = COLOURS[index % len(COLOURS)]
        dashes = f' stroke-dasharray="{2 + 3 * (index // len(COLOURS))}"' if index >= len(COLOURS) else ""
        width = 3 if verdict.state is State.GROWS else 1.5
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes}/>')
        at = LEFT + index % per_row * ENTRY
        down = HEIGHT + 12 + 18 * (index // per_row)
        grows = " ✗" if verdict.state is State.GROWS else ""
        middle = down - 4
        parts.append(
            f'<line x1="{at}" x2="{at + 16}" y1="{middle}" y2="{middle}" stroke="{colour}" stroke-width="3"{dashes}/>'
            f'<text x="{at + 22}" y="{down}">{html.escape(series.name)}{grows}</text>'
        )
    return "".join(parts) + "</svg>"


def ceiling(value: float) -> float:
    """The smallest 1, 2, 2.5 or 5 times a power of ten that is not below a value."""
    power = 1.0
    while power < value:
        power *= 10
    while power / 10 >= value > 0:
        power /= 10
    return next((power / 10 * step for step in (1, 2, 2.5, 5, 10) if power / 10 * step >= value), power)


def number(value: float) -> str:
    """A value as people read it."""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:,.3g}"


def clock(seconds: float, end: float) -> str:
    """A time since the start, in the unit that suits the whole run."""
    if end < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if end < 7200 else f"{seconds / 3600:.1f} h"


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #1f2933; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.15rem; margin-top: 2rem; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; padding: .35rem .6rem; border-bottom: 1px solid #e4e7eb; }}
.verdict {{ padding: .8rem 1rem; border-left: 4px solid; font-weight: 600; }}
.verdict.good {{ color: #047857; background: #ecfdf5; }} .verdict.bad {{ color: #b91c1c; background: #fef2f2; }}
tr.good td:last-child {{ color: #047857; }} tr.bad td {{ color: #b91c1c; font-weight: 600; }}
figure {{ margin: 2rem 0; }} figcaption {{ font-weight: 600; }} svg {{ width: 100%; height: auto; }}
svg text {{ font: 11px system-ui, sans-serif; fill: #616e7c; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; }}
dt {{ color: #616e7c; }} dd {{ margin: 0; }}
</style></head><body>
<h1>{title}</h1>
<p class="verdict {state}">{verdict}</p>
<h2>This run</h2><dl>{facts}</dl>
<h2>Messages</h2>
<table><thead><tr><th>What</th><th>Expected</th><th>Found</th><th></th></tr></thead><tbody>{checks}</tbody></table>
{figures}
<h2>Series</h2>
<p>The slope is the median of the slopes between all points after the warm-up (grey). A series grows if the rise over
the time measured is above what is allowed, and the slope is above zero with a confidence of 99 %.</p>
<table><thead><tr><th>Series</th><th>First</th><th>Last</th><th>Slope</th><th>Rise</th><th>Allowed</th><th></th><th></th>
</tr></thead><tbody>{series}</tbody></table>
</body></html>
"""
