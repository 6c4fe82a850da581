"""Templates, and the formats of numbers, sizes and times. Templates escape all values except markup made here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

MASKED: Final = "******"
DAY_MS: Final = 86_400_000
WARN_DAYS: Final = 14
"""Number of days before a certificate expires from which pages warn, as in deploy/prometheus/alerts.yml."""
UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def environment(wall_ms: Callable[[], int]) -> Environment:
    """Return the template environment of this package. `wall_ms` returns the current time in ms since 1970."""
    made = Environment(
        loader=PackageLoader("bolide.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def ago(moment: int) -> str:
        return span(max(wall_ms() - moment, 0))

    def ending_days(end: int | None) -> int | None:
        days = None if end is None else (end - wall_ms()) // DAY_MS
        return days if days is not None and days < WARN_DAYS else None

    made.filters.update(
        {"count": count, "size": size, "when": when, "ago": ago, "span": span, "rate": rate, "visible": visible}
    )
    made.filters["ending_days"] = ending_days
    made.globals.update({"link": link})
    return made


def link(path: str, **fields: object) -> str:
    """Return a URL of this console. Empty fields are omitted."""
    given = {name: value for name, value in fields.items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path


def count(number: int | None) -> str:
    """Format an integer like 12,345, or return a dash for None."""
    return "–" if number is None else f"{number:,}"


def rate(number: float | None) -> str:
    """Format a rate per second, or return a dash for None."""
    if number is None:
        return "–"
    return f"{number:,.0f}" if number >= 100 else f"{number:,.1f}"


def size(number: int) -> str:
    """Format a number of bytes like 1.5 KiB."""
    amount = float(number)
    for unit in UNITS:
        if amount < 1024 or unit == UNITS[-1]:
            return f"{number} B" if unit == "B" else f"{amount:,.1f} {unit}"
        amount /= 1024
    return f"{number} B"


def span(ms: float) -> str:
    """Format a duration in one or two units."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = int(ms // 1000)
    for unit, length, under, lower in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= length:
            rest = seconds % length // lower
            return f"{seconds // length} {unit}" + (f" {rest} {under}" if rest else "")
    return f"{ms / 1000:.1f} s" if seconds < 10 else f"{seconds} s"


def iso(ms: int) -> str:
    """Format a time in UTC with milliseconds, in ISO 8601."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def when(ms: int | None) -> Markup:
    """Return markup for a time in UTC, or a dash for None and invalid times."""
    if ms is None or not 0 < ms < 2**47:
        return Markup("–")
    text = iso(ms)
    return Markup('<time datetime="{}">{}</time>').format(text, text[:19].replace("T", " "))


def visible(text: object) -> Markup:
    """Escape markup and unprintable characters, so that every character is visible."""
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in str(text))
    return escape(shown)


def as_json(value: Any, plain: Callable[[Any], str] | None = None) -> str:
    """Return indented JSON. `plain` converts values that JSON cannot represent to text."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=plain)


def masked(settings: Mapping[str, str], secret: Callable[[str], bool]) -> dict[str, str]:
    """Return the settings with each secret value replaced by `MASKED`."""
    return {key: MASKED if value and secret(key) else value for key, value in settings.items()}
