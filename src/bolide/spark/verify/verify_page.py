"""The verdict on a store as one self-contained page, without scripts, style sheets or images from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bolide.spark.verify.verdict import Verdict

_ROWS: Final = 2_000
"""Maximum rows of a table on the page; the page says how many are left out."""

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #cf222e; --soft: #8881 }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; margin-bottom: .2rem } h2 { font-size: 1.1rem; margin-top: 2rem }
.verdict { display: inline-block; padding: .1rem .7rem; border-radius: 1rem; color: #fff; font-weight: 600 }
.clean { background: var(--good) } .found { background: var(--bad) }
.path { overflow-wrap: anywhere; opacity: .75; margin: 0 }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: .8rem; margin: 1.2rem 0 }
dl div { background: var(--soft); border-radius: .5rem; padding: .5rem .8rem }
dt { font-size: .8rem; opacity: .75 } dd { margin: 0; font-size: 1.2rem; font-variant-numeric: tabular-nums }
.scroll { overflow-x: auto } table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
td.w { overflow-wrap: anywhere; min-width: 7rem } tr.bad td { color: var(--bad) }
svg { width: 8rem; height: .6rem; vertical-align: middle } rect { fill: currentColor; opacity: .5 }
"""


def verdict_page(verdict: Verdict, when: datetime | None = None) -> str:
    """The whole page as HTML. `when` is the time of the audit, by default now."""
    stamp = (when or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
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
    parts = [
        f"<h1>Store audit <span class='verdict {'clean' if verdict.clean else 'found'}'>{state}</span></h1>",
        f"<p class='path'>{escape(verdict.store)}, {stamp}</p>",
        "<dl>" + "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts.items()) + "</dl>",
    ]
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
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>Store audit: {escape(state)}</title><style>{_STYLE}</style></head>\n<body>"
        + "\n".join(parts)
        + "</body></html>\n"
    )


class _Bar:
    """A share as a bar."""

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
