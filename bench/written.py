"""Writes figures of docs/reference/results.md from what `make bench` kept with `--json`: none is typed by hand.

python bench/written.py RESULT.json [--growth GROWTH.json]

It writes bench/results/broker.json and growth.json. Then run `python tools/generate_results.py`.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.report.results import OURS, number, processor_time

FOLDER = Path(__file__).resolve().parent / "results"
_TITLES = {"java": "Java", "before": "the other commit"}
_SERVERS = {"java": "RocketMQ's Java broker 5.5.0", "before": "an earlier commit"}


def _without_files(command: str) -> str:
    """The command without places of this machine: they say nothing about what was measured."""
    return re.sub(r" --against /[^ ']+", " --against PYTHON", re.sub(r" --(json|page) [^ ']+", "", command))


def comparison(values: dict[str, Any]) -> dict[str, Any]:
    """The run of a comparison, one row per compared figure."""
    other = next(name for name in values["servers"] if name != OURS)
    title = _TITLES[other]
    machine = "; ".join(f"{key} {value}" for key, value in values["machine"].items())
    rows = []
    for row in values["rows"]:
        ours, theirs = (row["medians"].get(name, {}) for name in (OURS, other))
        for place, one in enumerate(row["compared"]):
            first = place == 0
            each = "" if row["each"] == "message" else f", for each {row['each']}"
            rows.append(
                [
                    f"{row['row']}{each}" if first else "",
                    number(one["ratio"].get(other)) + (" times less" if one["less_is_better"] else ""),
                    number(one["goal"]),
                    f"{number(ours.get(one['figure']))} {one['unit']}",
                    f"{number(theirs.get(one['figure']))} {one['unit']}",
                    f"{processor_time(ours)} / {processor_time(theirs)}" if first else "",
                    number(row["cost_ratio"].get(other)) if first else "",
                    f"{number(row['calls'].get(OURS))} / {number(row['calls'].get(other))}" if first else "",
                ]
            )
    notes = [
        f"Medians of {values['rounds']} rounds, {values['minutes']:.0f} minutes. Above 1, Bolide is faster;"
        ' a figure with "times less" is the factor by which it needs less time or memory.'
    ]
    bound = [f"{row['row']} ({', '.join(row['generator_bound'])})" for row in values["rows"] if row["generator_bound"]]
    if bound:
        notes.append(f"Above 80 % of the null server's rate: {'; '.join(bound)}.")
    columns = [
        "work",
        f"Bolide ÷ {title}",
        "goal",
        "Bolide",
        title,
        f"processor time per message, µs, Bolide / {title}",
        "times less",
        f"system calls per message, Bolide / {title}",
    ]
    return {
        "title": f"Bolide's broker and {_SERVERS[other]}",
        "date": values["date"],
        "commit": values["commit"],
        "machine": f"{machine}; load before the run {values['load_before']:.2f}",
        "command": _without_files(values["command"]),
        "notes": notes,
        "tables": [{"columns": columns, "rows": rows}],
    }


def growth(values: dict[str, Any]) -> dict[str, Any]:
    """The run of the measurements that grow, one row per figure and series."""
    rows = []
    for series in values["series"]:
        for figure in series["figures"]:
            points = [f"{size:,g}: {number(point[figure['name']])}" for size, point in series["points"]]
            rows.append([f"{figure['title']}, {figure['unit']}", series["along"], "; ".join(points)])
    return {
        "title": "Cost as it grows",
        "date": values["date"],
        "commit": values["commit"],
        "machine": "; ".join(f"{key} {value}" for key, value in values["machine"].items()),
        "command": _without_files(values["command"]),
        "notes": [],
        "tables": [{"columns": ["figure", "against", "size: figure"], "rows": rows}],
    }


def keep(folder: Path, name: str, run: dict[str, Any]) -> None:
    """Write one run to its file."""
    text = json.dumps(run, ensure_ascii=False, indent=1)
    (folder / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


def main() -> int:
    """Write the runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path, help="what `make bench` kept with --json")
    parser.add_argument("--growth", type=Path, help="what `make bench ARGS=--growth` kept with --json")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    chosen = parser.parse_args()
    keep(chosen.folder, "broker", comparison(json.loads(chosen.result.read_text(encoding="utf-8"))))
    if chosen.growth:
        keep(chosen.folder, "growth", growth(json.loads(chosen.growth.read_text(encoding="utf-8"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
