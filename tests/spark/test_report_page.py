"""One style for the console and for the reports."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from bolide.console import __file__ as console
from bolide.spark.report_page import report_page, style

SHEET = (Path(console).parent / "static" / "console.css").read_text(encoding="utf-8")


def test_the_verdict_comes_first_with_its_date_and_command() -> None:
    page = report_page("A <page>", "2 & more", False, "bolide 'x'", ["<p>part</p>"], datetime(2026, 11, 23, tzinfo=UTC))
    body = page[page.index("<body>") :]
    assert body.startswith(
        '<body><h1>A &lt;page&gt;</h1>\n<p class="verdict bad">2 &amp; more'
        "<small>2026-11-23 00:00:00 UTC, <code>bolide &#x27;x&#x27;</code></small></p>\n<p>part</p>"
    )
    assert '<p class="verdict">fine' in report_page("t", "fine", True, "c", [])


def test_colours_are_the_consoles_in_light_and_dark() -> None:
    palettes = re.findall(r"--good: (#\w+); --warn: (#\w+); --bad: (#\w+)", SHEET)
    assert len(set(palettes)) == 2
    assert re.findall(r"--good: (#\w+); --warn: (#\w+); --bad: (#\w+)", style()) == palettes
    used, defined = set(re.findall(r"var\((--[\w-]+)\)", style())), set(re.findall(r"(--[\w-]+):", style()))
    assert used <= defined
    assert ".verdict.bad" in style() and "textarea" not in style()
