"""Renders the result of an audit as a self-contained page, without external scripts, style sheets or images."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Final

from bolide.spark.report_page import numbers, report_page

if TYPE_CHECKING:
    from bolide.spark.verify.verdict import Verdict

_ROWS: Final = 2_000
"""Maximum number of rows of a table. The page shows the number of omitted rows."""


def verdict_page(verdict: Verdict, when: datetime | None = None) -> str:
    """Return the page as HTML. `when` is the time of the audit, by default now."""
    state = "clean" if verdict.clean else f"{verdict.count:,} finding{'s' if verdict.count > 1 else ''}"
    rate = verdict.log_bytes / max(verdict.seconds, 1e-9) / 1e6
    facts = {
        "Records": f"{verdict.records:,}",
        "Log": f"{verdict.log_bytes / 1e6:,.1f} MB in {verdict.log_files:,} files",
        "Offsets": f"{verdict.first_offset:,} to {verdict.end_offset:,}",
        "Queues": f"{len(verdict.queues):,}",
        "Queue units": f"{verdict.units:,}",
        "Extension units": f"{verdict.ext_units:,}",
        "Index entries": f"{verdict.index_entries:,} in {len(verdict.index):,} files",
        "Group offsets": f"{verdict.consumer_offsets:,}",
        "Time": f"{verdict.seconds:,.1f} s, {rate:,.0f} MB/s",
    }
    root = f"{verdict.store}/"
    parts = [numbers(facts)]
    if verdict.findings:
        rows = [(one.path.removeprefix(root), one.position, one.sentence) for one in verdict.findings]
        parts.append(_table("Findings", ("File", "Place", "Finding"), rows, verdict.count))
    if verdict.notes:
        notes = "".join(f"<li>{escape(note)}</li>" for note in verdict.notes[:_ROWS])
        parts.append(f"<h2>Notes</h2><ul>{notes}</ul>")
    most = max((row.records for row in verdict.queues), default=0)
    queues = [
        (row.topic, row.queue_id, row.records, _Bar(row.records, most), row.units, row.first, row.end, row.findings)
        for row in sorted(verdict.queues, key=lambda row: (-row.findings, row.topic, row.queue_id))
    ]
    names = ("Topic", "Queue", "Records", "", "Units", "First offset", "End", "Findings")
    parts.append(_table("Queues", names, queues, len(queues)))
    files = [(row.name, row.entries, row.slots, row.findings) for row in verdict.index]
    parts.append(_table("Index files", ("Name", "Entries", "Slots used", "Findings"), files, len(files)))
    command = f"bolide pipeline verify {shlex.quote(verdict.store)}"
    return report_page("Store audit", state, verdict.clean, command, parts, when)


class _Bar:
    """A bar that shows a share."""

    def __init__(self, value: int, most: int) -> None:
        self.share = value / most if most else 0.0

    def __str__(self) -> str:
        return f"<svg aria-hidden='true'><rect width='{100 * self.share:.1f}%' height='100%'/></svg>"


def _table(title: str, names: Sequence[str], rows: Sequence[Sequence[object]], total: int) -> str:
    if not rows:
        return f"<h2>{title}</h2><p>none</p>"
    shown = rows[:_ROWS]
    numbers = [isinstance(cell, int) for cell in rows[0]]
    head = "".join(
        f"<th class='n'>{name}</th>" if n else f"<th>{name}</th>" for name, n in zip(names, numbers, strict=True)
    )
    body = "".join(_row(names, row) for row in shown)
    left = f"<p>{len(shown):,} of {total:,} are shown.</p>" if len(shown) < total else ""
    return f"<h2>{title}</h2>{left}<div class='scroll'><table><tr>{head}</tr>{body}</table></div>"


def _row(names: Sequence[str], row: Sequence[object]) -> str:
    bad = names[-1] == "Findings" and bool(row[-1])
    return f"<tr class='bad'>{_cells(row)}</tr>" if bad else f"<tr>{_cells(row)}</tr>"


def _cells(row: Iterable[object]) -> str:
    made = []
    for cell in row:
        if isinstance(cell, _Bar):
            made.append(f"<td>{cell}</td>")
        elif isinstance(cell, int):
            made.append(f"<td class='n'>{cell:,}</td>")
        else:
            made.append(f"<td class='w'>{escape(str(cell))}</td>")
    return "".join(made)
