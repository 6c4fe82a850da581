"""What was measured of each row, its medians and ratios, and all of it as values for a file."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.loads.rows import Compared, Figures, Row
from bench.report.shown import aligned

OURS = "bolide"
CEILING_SHARE = 0.8


@dataclass
class Result:
    """One row: the figures of each round for each server, and what was measured beside the rounds."""

    row: Row
    rounds: dict[str, list[Figures]] = field(default_factory=dict)
    ceiling: Figures = field(default_factory=dict)
    calls: dict[str, float] = field(default_factory=dict)
    """System calls of a message."""
    failures: list[str] = field(default_factory=list)

    def median(self, server: str, figure: str) -> float | None:
        """Over the rounds; None where it was not measured."""
        found = [figures[figure] for figures in self.rounds.get(server, ()) if figure in figures]
        return statistics.median(found) if found else None

    def ratio(self, compared: Compared, to: str) -> float | None:
        """Median over the rounds of how many times better Bolide is; above 1 for less where less is better."""
        name = compared.figure
        pairs = zip(self.rounds.get(OURS, ()), self.rounds.get(to, ()), strict=False)
        both = [(ours[name], other[name]) for ours, other in pairs if name in ours and name in other]
        found = [better(ours, other, compared.less) for ours, other in both]
        return statistics.median(found) if found else None

    def cost_ratio(self, to: str) -> float | None:
        """Median over the rounds of how many times less processor time Bolide takes for a message."""
        pairs = zip(self.rounds.get(OURS, ()), self.rounds.get(to, ()), strict=False)
        found = [_cost(other) / _cost(ours) for ours, other in pairs if _cost(ours) and _cost(other)]
        return statistics.median(found) if found else None

    def bound_by_generator(self, server: str) -> bool:
        """Whether a server came so near the null server that the figure is the generator's."""
        rate, most = self.median(server, "rate"), self.ceiling.get("rate")
        return bool(rate and most and rate > CEILING_SHARE * most)


def _cost(figures: Figures) -> float:
    return figures.get("user_us", 0.0) + figures.get("system_us", 0.0) + figures.get("cpu_us", 0.0)


def better(ours: float, other: float, less: bool) -> float:
    """How many times better ours is."""
    over, under = (other, ours) if less else (ours, other)
    return over / under if under else 0.0


def as_values(results: Iterable[Result], servers: Sequence[str]) -> list[dict[str, Any]]:
    """Everything measured, for a file."""
    values = []
    for result in results:
        row = result.row
        compared = [
            {
                "figure": one.figure,
                "unit": one.unit,
                "less_is_better": one.less,
                "goal": one.goal,
                "ratio": {name: result.ratio(one, name) for name in servers if name != OURS},
            }
            for one in row.compared
        ]
        names = sorted({name for figures in result.rounds.values() for one in figures for name in one})
        values.append(
            {
                "row": row.name,
                "group": row.group.name,
                "each": row.each,
                "compared": compared,
                "medians": {server: {name: result.median(server, name) for name in names} for server in result.rounds},
                "rounds": result.rounds,
                "cost_ratio": {name: result.cost_ratio(name) for name in servers if name != OURS},
                "ceiling": result.ceiling,
                "generator_bound": [server for server in servers if result.bound_by_generator(server)],
                "calls": result.calls,
                "failures": result.failures,
            }
        )
    return values


def number(value: float | None) -> str:
    """A figure as people read it: three digits or so."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def table(rows: Sequence[dict[str, Any]], servers: Sequence[str]) -> str:
    """The result as text: a line for each figure that is compared."""
    others = [name for name in servers if name != OURS]
    heads = ["row", "unit", *servers, *(f"by {name}" for name in others), "goal"]
    heads += [f"{name} µs" for name in servers] + [f"less than {name}" for name in others]
    heads += [f"{name} calls" for name in servers] + ["ceiling", ""]
    lines = [heads]
    for row in rows:
        for place, one in enumerate(row["compared"]):
            medians = row["medians"]
            line = [row["row"] if place == 0 else "", one["unit"]]
            line += [number(medians.get(name, {}).get(one["figure"])) for name in servers]
            line += [number(one["ratio"].get(name)) for name in others]
            line.append(number(one["goal"]))
            line += [processor_time(medians.get(name, {})) if place == 0 else "" for name in servers]
            line += [number(row["cost_ratio"].get(name)) if place == 0 else "" for name in others]
            line += [number(row["calls"].get(name)) if place == 0 else "" for name in servers]
            line.append(number(row["ceiling"].get("rate")) if place == 0 and row["ceiling"] else "")
            line.append(", ".join(f"{name} generator-bound" for name in row["generator_bound"]))
            lines.append(line)
    return aligned(lines)


def processor_time(medians: dict[str, float | None]) -> str:
    """User and kernel time of a message, or both together, µs."""
    if medians.get("user_us") is None:
        return number(medians.get("cpu_us"))
    return f"{number(medians['user_us'])}+{number(medians['system_us'])}"
