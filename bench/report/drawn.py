"""Drawings of the bench as inline SVG, and the page around them: one file, light and dark, nothing from elsewhere."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

STYLE = """
:root { --ink: #1b1f24; --soft: #5d6670; --paper: #fbfbfa; --line: #dcdfe3; --ours: #1f6feb; --other: #8a939c;
  --kernel: 0.45; --third: #b35900; --panel: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --soft: #9aa4ae; --paper: #14171a; --line: #30363d;
  --ours: #58a6ff; --other: #7d8791; --third: #e3964a; --panel: #1b1f23; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 66rem; color: var(--ink); background: var(--paper);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
p { margin: .25rem 0 .75rem; color: var(--soft); max-width: 46rem; }
svg { display: block; width: 100%; height: auto; background: var(--panel); border: 1px solid var(--line);
  border-radius: 6px; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .soft { fill: var(--soft); }
svg .axis { stroke: var(--line); stroke-width: 1; }
svg .one { stroke: var(--soft); stroke-width: 1.5; }
svg .goal { stroke: var(--third); stroke-width: 2.5; }
.ours { fill: var(--ours); } .other { fill: var(--other); } .before { fill: var(--third); }
.kernel { opacity: var(--kernel); }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(19rem, 1fr)); gap: 1rem; }
svg .curve { fill: none; stroke: var(--ours); stroke-width: 2; }
table { border-collapse: collapse; font-size: 13px; width: 100%; }
.scroll { overflow-x: auto; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th { color: var(--soft); font-weight: 600; }
.key span { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin: 0 .35em 0 1em;
  background: var(--c); }
"""


def page(title: str, body: str) -> str:
    """A whole page."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    """A line of text."""
    of_kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{of_kind}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def bar(x: float, y: float, width: float, height: float, kind: str) -> str:
    """A filled rectangle."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}" class="{kind}"/>'


def svg(width: float, height: float, parts: Sequence[str], label: str) -> str:
    """The drawing around the parts; `label` says what it shows to those who do not see it."""
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    lines = ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def short(value: float) -> str:
    """A number for an axis or the end of a bar."""
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{letter}"
    return f"{value:.3g}"


@dataclass(frozen=True)
class LogScale:
    """Places values between two ends of an axis by their logarithm."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        """Where a value stands; one outside the scale stands at its end."""
        kept = min(max(value, self.low), self.high)
        if self.high <= self.low:
            return self.begin
        share = math.log(kept / self.low) / math.log(self.high / self.low)
        return self.begin + share * (self.end - self.begin)


def curve(title: str, unit: str, points: Sequence[tuple[float, float]], along: str) -> str:
    """A figure against a size that grows: the size by its logarithm, the figure from 0, each point with its number."""
    width, height, left, top, right, bottom = 340.0, 200.0, 16.0, 46.0, 26.0, 42.0
    most = max((value for _, value in points), default=0) or 1
    sizes = [size for size, _ in points]
    place = LogScale(max(min(sizes), 1e-9), max(sizes), left + 14, width - right)
    floor = height - bottom

    def up(value: float) -> float:
        return floor - max(value, 0) / most * (floor - top)

    at = [(place(size), up(value)) for size, value in points]
    parts = [text(left, 20, title), text(left, 36, unit, kind="soft"), line(left, floor, width - 8, floor, "axis")]
    parts.append(f'<polyline class="curve" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in at)}"/>')
    for (size, value), (x, y) in zip(points, at, strict=True):
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="ours"/>')
        parts.append(text(x, y - 7, short(value), "middle"))
        parts.append(text(x, floor + 15, short(size), "middle", "soft"))
    parts.append(text(width / 2, height - 8, along, "middle", "soft"))
    told = ", ".join(f"{short(size)}: {short(value)}" for size, value in points)
    return svg(width, height, parts, f"{title} ({unit}) against {along}: {told}")
