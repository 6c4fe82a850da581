"""Writes the tables of docs/performance.md from what `make bench` kept with `--json`: no figure is typed by hand.

python bench/written.py RESULT.json [--growth GROWTH.json] [--page docs/performance.md]
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.report.results import OURS, number, processor_time

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- {}: written by bench/written.py -->", "<!-- {}: end -->"
_TITLES = {"java": "Java", "before": "the other commit"}


def _without_files(command: str) -> str:
    """The command without places of this machine: they say nothing about what was measured."""
    return re.sub(r" --against /[^ ']+", " --against PYTHON", re.sub(r" --(json|page) [^ ']+", "", command))


def comparison(values: dict[str, Any]) -> str:
    """What was measured, on what, and a line for each figure that is compared."""
    other = next(name for name in values["servers"] if name != OURS)
    title = _TITLES[other]
    machine = "; ".join(f"{key} {value}" for key, value in values["machine"].items())
    lines = [
        f"Measured on {values['date']} at commit {values['commit']}, medians of {values['rounds']} rounds,"
        f" {values['minutes']:.0f} minutes, by `{_without_files(values['command'])}`.",
        f"Machine: {machine}; load before the run {values['load_before']:.2f}.",
        "",
        f"| work | Bolide ÷ {title} | goal | Bolide | {title} | processor time a message, µs, Bolide / {title}"
        f" | times less | system calls a message, Bolide / {title} |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in values["rows"]:
        ours, theirs = (row["medians"].get(name, {}) for name in (OURS, other))
        for place, one in enumerate(row["compared"]):
            first = place == 0
            each = "" if row["each"] == "message" else f", for each {row['each']}"
            cells = [
                f"{row['row']}{each}" if first else "",
                number(one["ratio"].get(other)) + (" times less" if one["less_is_better"] else ""),
                number(one["goal"]),
                f"{number(ours.get(one['figure']))} {one['unit']}",
                f"{number(theirs.get(one['figure']))} {one['unit']}",
                f"{processor_time(ours)} / {processor_time(theirs)}" if first else "",
                number(row["cost_ratio"].get(other)) if first else "",
                f"{number(row['calls'].get(OURS))} / {number(row['calls'].get(other))}" if first else "",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    bound = [f"{row['row']} ({', '.join(row['generator_bound'])})" for row in values["rows"] if row["generator_bound"]]
    if bound:
        lines += ["", f"More than 80 % of what the null server answers: {'; '.join(bound)}."]
    return "\n".join(lines)


def growth(values: dict[str, Any]) -> str:
    """A line for each figure of each size that grows."""
    lines = [
        f"Measured on {values['date']} at commit {values['commit']} by `{_without_files(values['command'])}`.",
        "",
        "| figure | against | size: figure |",
        "|---|---|---|",
    ]
    for series in values["series"]:
        for figure in series["figures"]:
            points = [f"{size:,g}: {number(point[figure['name']])}" for size, point in series["points"]]
            lines.append(f"| {figure['title']}, {figure['unit']} | {series['along']} | {'; '.join(points)} |")
    return "\n".join(lines)


def replaced(page: str, name: str, text: str) -> str:
    """The page with a text between the two marks of this name."""
    begin, end = BEGIN.format(name), END.format(name)
    if page.count(begin) != 1 or page.count(end) != 1:
        raise SystemExit(f"the page needs the lines {begin!r} and {end!r}, once each")
    before, after = page.split(begin)[0], page.split(end)[1]
    return f"{before}{begin}\n{text}\n{end}{after}"


def main() -> int:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path, help="what `make bench` kept with --json")
    parser.add_argument("--growth", type=Path, help="what `make bench ARGS=--growth` kept with --json")
    parser.add_argument("--page", type=Path, default=PAGE)
    chosen = parser.parse_args()
    page = chosen.page.read_text(encoding="utf-8")
    page = replaced(page, "comparison", comparison(json.loads(chosen.result.read_text(encoding="utf-8"))))
    if chosen.growth:
        page = replaced(page, "growth", growth(json.loads(chosen.growth.read_text(encoding="utf-8"))))
    chosen.page.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
