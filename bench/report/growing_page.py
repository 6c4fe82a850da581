"""The page of cost as the work grows: a curve for each figure of each thing that grows."""

from html import escape
from typing import Any

from bench.report.drawn import curve, page


def drawn(values: dict[str, Any]) -> str:
    """The page of what `make bench ARGS=--growth` keeps with `--json`."""
    machine = ", ".join(f"{key} {value}" for key, value in values["machine"].items())
    body = [
        "<h1>Cost as the work grows</h1>",
        f"<p>Bolide, {escape(values['date'])}, commit {escape(values['commit'])}. {escape(machine)}. "
        f"Load before: {values['load_before']:.2f}. Command: <code>{escape(values['command'])}</code></p>",
        "<p>Each point was measured with a broker of its own. Sizes are drawn by their logarithm.</p>",
    ]
    for series in values["series"]:
        body.append(f"<h2>{escape(series['along'])}</h2>")
        body.append('<div class="panels">')
        for figure in series["figures"]:
            points = [(size, point[figure["name"]]) for size, point in series["points"]]
            body.append(curve(figure["title"], figure["unit"], points, series["along"]))
        body.append("</div>")
    return page("Bolide: cost as the work grows", "\n".join(body))
