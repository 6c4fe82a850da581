"""Renders statistics as an HTML page with tables and plots, in one file that needs no network."""

from __future__ import annotations

import html
import io
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Final

from bolide.spark.errors import SparkMissing
from bolide.spark.jobs.stats import Count, Statistics
from bolide.spark.report_page import COLOURS, report_page

SHOWN: Final = 6
"""Maximum number of topics with a separate line in a plot. The other topics are summed."""
ROWS: Final = 25
TEXTS: Final = frozenset({"topic", "key", "tag", "first", "last"})
"""Titles of the columns with text. Other columns contain numbers."""
_NO_METADATA: Final = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def check_plots() -> None:
    """Raise `SparkMissing` without matplotlib. Call this before a job whose page would otherwise fail."""
    if find_spec("matplotlib") is None:
        raise SparkMissing('plots need matplotlib: pip install "bolide[spark]", or use --json')


def stats_page(counted: Statistics, title: str, command: str) -> str:
    """Return the page, which shows the `command` that created it. Raises `SparkMissing` without matplotlib."""
    topics = [
        (
            one.topic, f"{one.messages:,}", size(one.bytes), f"{one.rate:,.1f}", f"{one.mean_size:,.0f}",
            f"{one.p99_size:,}", f"{one.largest:,}", f"{one.latency_p50:,}", f"{one.latency_p99:,}",
            f"{one.latency_most:,}", moment(one.first), moment(one.last),
        )
        for one in counted.topics
    ]  # fmt: skip
    heads = (
        "topic", "messages", "body bytes", "msg/s", "mean size", "p99 size", "largest", "born → stored p50 ms",
        "p99 ms", "most ms", "first", "last",
    )  # fmt: skip
    parts = [
        plot(counted, f"Messages a second, by points of {counted.step:,} s", lambda one: one.messages / counted.step),
        plot(counted, "Bytes of bodies a second", lambda one: one.bytes / counted.step),
        "<h2>Topics</h2>", table(heads, topics),
        "<h2>Hot keys</h2>", _counts("key", counted.keys),
        "<h2>Tags</h2>", _counts("tag", counted.tags),
    ]  # fmt: skip
    said = f"{counted.messages:,} messages, {size(counted.bytes)} of bodies in {len(counted.topics):,} topics"
    return report_page(title, said, True, command, parts)


def size(count: float) -> str:
    """Format a number of bytes with a unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def moment(timestamp: int) -> str:
    """Format a time in ms since 1970 in UTC, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(timestamp / 1000))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table with escaped text."""
    if not rows:
        return "<p>(none)</p>"
    kinds = ["" if name in TEXTS else ' class="n"' for name in heads]
    head = _row("th", kinds, heads)
    body = "".join(_row("td", kinds, row) for row in rows)
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'


def _row(cell: str, kinds: Sequence[str], texts: Sequence[str]) -> str:
    cells = [f"<{cell}{kind}>{html.escape(text)}</{cell}>" for kind, text in zip(kinds, texts, strict=True)]
    return f"<tr>{''.join(cells)}</tr>"


def _counts(name: str, counts: Sequence[Count]) -> str:
    rows = [(one.topic, one.name, f"{one.messages:,}", size(one.bytes)) for one in counts[:ROWS]]
    more = f"<p>and {len(counts) - ROWS:,} more</p>" if len(counts) > ROWS else ""
    return table(("topic", name, "messages", "body bytes"), rows) + more


def plot(counted: Statistics, caption: str, value: Any) -> str:
    """Return an SVG plot with one line per topic over time. Points without messages are zero."""
    check_plots()
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import dates, pyplot

    untyped: Any = dates

    named = {one.topic for one in counted.topics[:SHOWN]}
    series: dict[str, dict[int, float]] = {}
    for one in counted.times:
        line = series.setdefault(one.topic if one.topic in named else "others", {})
        line[int(one.name)] = line.get(int(one.name), 0.0) + value(one)
    if not series:
        return ""
    every = sorted({at for line in series.values() for at in line})
    width = counted.step * 1000
    # Add a point before and after each period with messages, so that the plot shows a pause as zero, not as a slope.
    points = sorted({at + shift for at in every for shift in (-width, 0, width)})
    figure, axes = pyplot.subplots(figsize=(10, 3.4))
    axes.spines[["top", "right"]].set_visible(False)
    for colour, (name, line) in zip(COLOURS, sorted(series.items()), strict=False):
        days = [at / 86_400_000 for at in points]
        axes.plot(days, [line.get(at, 0.0) for at in points], label=name, color=colour, linewidth=1.4)
    locator = untyped.AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(untyped.ConciseDateFormatter(locator))
    axes.yaxis.set_major_formatter(lambda number, _: f"{number:,g}")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, ncols=3, loc="upper left", bbox_to_anchor=(0, 1.22))
    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(out, format="svg", bbox_inches="tight", metadata=_NO_METADATA)
    pyplot.close(figure)
    drawing = out.getvalue()
    return f"<figure><figcaption>{html.escape(caption)}</figcaption>{drawing[drawing.index('<svg') :]}</figure>"
