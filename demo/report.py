"""The demo's report: one HTML file with the summary and three plots inside it, readable with no network."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bolide.spark.report_page import COLOURS, INK, report_page


@dataclass
class Samples:
    """What was measured twice a second: seconds since the start, and a count by name."""

    seconds: list[float] = field(default_factory=list)
    counts: dict[str, list[int]] = field(default_factory=dict)

    def add(self, second: float, counts: dict[str, int]) -> None:
        """One sample; every sample has the same names."""
        self.seconds.append(second)
        for name, count in counts.items():
            self.counts.setdefault(name, []).append(count)


@dataclass
class Check:
    """One line of the summary: what was expected, and what came."""

    what: str
    expected: str
    found: str
    good: bool


def write_report(
    path: Path, title: str, checks: Sequence[Check], samples: Samples, lags: dict[str, str],
    table: dict[tuple[str, str], tuple[int, int, int]], facts: dict[str, str], batched: set[str],
) -> None:  # fmt: skip
    """Write the report. `lags` names, by consumer, the count it is behind; `table` is the hourly table."""
    plots = [
        ("Throughput: messages a second", throughput(samples, batched)),
        ("Consumer lag: messages acknowledged and not yet consumed", lag(samples, lags)),
        ("Mean departure delay (minutes) by carrier and hour of the day", delays(table)),
    ]
    rows = "".join(
        f'<tr class="{"good" if check.good else "bad"}"><td>{html.escape(check.what)}</td>'
        f"<td>{html.escape(check.expected)}</td><td>{html.escape(check.found)}</td>"
        f"<td>{'✓' if check.good else '✗'}</td></tr>"
        for check in checks
    )
    known = "".join(
        f"<tr><td>{html.escape(key)}</td><td>{html.escape(value)}</td></tr>" for key, value in facts.items()
    )
    images = "".join(
        f'<figure><figcaption>{html.escape(caption)}</figcaption><img alt="{html.escape(caption)}" '
        f'src="data:image/png;base64,{image}"></figure>'
        for caption, image in plots
    )
    wrong = sum(not check.good for check in checks)
    said = f"{wrong} of {len(checks)} checks failed" if wrong else f"all {len(checks)} checks passed"
    heads = "<tr><th>What</th><th>Expected</th><th>Found</th><th></th></tr>"
    parts = [
        f'<div class="scroll"><table><thead>{heads}</thead><tbody>{rows}</tbody></table></div>',
        images,
        f'<h2>This run</h2><div class="scroll"><table>{known}</table></div>',
    ]
    path.write_text(report_page(title, said, not wrong, "make demo", parts), encoding="utf-8")


def _axes(height: float) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(10, height), dpi=110)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK)
    return figure, axes


def _png(figure: Any) -> str:
    from matplotlib import pyplot

    out = io.BytesIO()
    figure.savefig(out, format="png", bbox_inches="tight")
    pyplot.close(figure)
    return base64.b64encode(out.getvalue()).decode()


def throughput(samples: Samples, batched: set[str]) -> str:
    """Rates over about two seconds, from the counts; what counts in batches (`batched`) has no such rate."""
    figure, axes = _axes(3.6)
    steady = {name: counts for name, counts in samples.counts.items() if name not in batched}
    for colour, (name, counts) in zip(COLOURS, steady.items(), strict=False):
        rates = []
        for index in range(len(counts)):
            first = max(index - 4, 0)
            span = samples.seconds[index] - samples.seconds[first]
            rates.append((counts[index] - counts[first]) / span if span > 0 else 0.0)
        axes.plot(samples.seconds, rates, label=name, color=colour, linewidth=1.6)
    axes.set_xlabel("seconds")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.legend(frameon=False, ncols=3, loc="upper left", bbox_to_anchor=(0, 1.18))
    return _png(figure)


def lag(samples: Samples, lags: dict[str, str]) -> str:
    """How far each consumer is behind what was acknowledged for it."""
    figure, axes = _axes(3.2)
    for colour, (name, of) in zip(COLOURS[1:], lags.items(), strict=False):
        behind = [max(a - b, 0) for a, b in zip(samples.counts[of], samples.counts[name], strict=True)]
        axes.plot(samples.seconds, behind, label=name, color=colour, linewidth=1.6)
    axes.set_xlabel("seconds")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.legend(frameon=False, ncols=4, loc="upper left", bbox_to_anchor=(0, 1.18))
    return _png(figure)


def delays(table: dict[tuple[str, str], tuple[int, int, int]]) -> str:
    """A map of mean delays: a row a carrier, a column an hour (UTC)."""
    sums: dict[tuple[str, int], list[int]] = {}
    for (carrier, time_hour), (_, count, delay) in table.items():
        cell = sums.setdefault((carrier, int(time_hour[11:13])), [0, 0])
        cell[0] += count
        cell[1] += delay
    carriers = sorted({carrier for carrier, _ in sums})
    hours = [*range(9, 24), *range(9)]
    cells = [
        [cell[1] / cell[0] if (cell := sums.get((carrier, hour), [0, 0]))[0] else float("nan") for hour in hours]
        for carrier in carriers
    ]
    figure, axes = _axes(4.2)
    image = axes.imshow(cells, aspect="auto", cmap="YlOrRd", vmin=0, vmax=40)
    axes.set_xticks(range(len(hours)), [f"{hour:02d}" for hour in hours])
    axes.set_yticks(range(len(carriers)), carriers)
    axes.set_xlabel("hour of departure, UTC")
    figure.colorbar(image, ax=axes, fraction=0.02, pad=0.02)
    return _png(figure)
