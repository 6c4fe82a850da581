"""The layout that reports share: the style of the console, and the result first.

A report is one file without external scripts, style sheets or images. Its style is the part of the console's style
sheet for results, numbers and tables, so that colours have the same meaning everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib.resources import files
from typing import Final

COLOURS: Final = ("#1f5fd0", "#ea580c", "#059669", "#9333ea", "#dc2626", "#0891b2", "#64748b")
"""Colours of the lines in a plot, in this order. The first is the console's accent."""
INK: Final = "#1b2330"
_UNTIL: Final = "/* forms */"
"""End of the part of the style sheet that reports need."""
_OWN: Final = """
body { display: block; max-width: 72rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; min-height: 0; }
h2 { margin-top: 2rem; } td.w { overflow-wrap: anywhere; min-width: 7rem; } tr.bad td { color: var(--bad); }
figure { margin: 1.5rem 0; background: #fff; color: #1b2330; border: 1px solid var(--line); border-radius: 10px; }
figure { padding: 1rem; }
figcaption { font-weight: 600; margin-bottom: .5rem; } figure svg, figure img { max-width: 100%; height: auto; }
td svg { width: 8rem; height: .6rem; vertical-align: middle; } td rect { fill: var(--bar); }
.scroll { margin: 0; padding: 0; }
"""


@cache
def style() -> str:
    """Return the style sheet of a report."""
    sheet = (files("bolide.console") / "static" / "console.css").read_text(encoding="utf-8")
    return sheet[: sheet.index(_UNTIL)] + _OWN


def stamp(when: datetime | None = None) -> str:
    """Format a time in UTC, by default now."""
    return (when or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def numbers(figures: Mapping[str, str]) -> str:
    """Return the HTML of figures side by side, by name."""
    cells = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in figures.items())
    return f'<div class="numbers">{cells}</div>'


def report_page(
    title: str, verdict: str, good: bool, command: str, parts: Iterable[str], when: datetime | None = None
) -> str:
    """Return the page. It starts with `verdict`, the date and the command. `parts` are HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}: {escape(verdict)}</title><style>{style()}</style></head>\n<body>"
        f'<h1>{escape(title)}</h1>\n<p class="verdict{"" if good else " bad"}">{escape(verdict)}'
        f"<small>{stamp(when)}, <code>{escape(command)}</code></small></p>\n" + "\n".join(parts) + "</body></html>\n"
    )
