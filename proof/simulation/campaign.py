"""A campaign: one seed after the other, with progress, until enough is simulated or a promise is broken."""

from __future__ import annotations

import argparse
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from proof.kit.command_line import Pace, new_seed, teller
from proof.simulation.plan import Plan
from proof.simulation.rare_places import LEAST, LIAR_PLACES, MEMBER_PLACES, rarest, table, to_reach, too_rare
from proof.simulation.run import Report, run_plan
from proof.simulation.shrink import Shrinker
from proof.simulation.swarm import draw, kind_of

CORPUS: Final = Path(__file__).with_name("corpus.toml")
PROGRESS_S: Final = 10.0
SEEDS: Final = 20
"""How many seeds, if nothing else says when to stop."""
FINDINGS_SHOWN: Final = 12
STORY_SHOWN: Final = 120


@dataclass
class Outcome:
    """A campaign so far."""

    pace: Pace = field(default_factory=lambda: Pace(PROGRESS_S))
    seeds: int = 0
    hours: float = 0.0
    processor_s: float = 0.0
    failed: list[int] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    paces: dict[str, dict[str, float]] = field(default_factory=dict)
    """The same of quick and of slow plans: an hour of little traffic tells less than one of much."""
    two_in_sync: float = 0.0
    """Hours of plans whose masters answer a send when a second replica has it."""
    members: int = 0
    """Seeds that damage single members of their sets."""
    attacked: int = 0
    """Seeds with an attacker."""
    rare: Counter[str] = field(default_factory=Counter)
    """Number of times that the runs reached each rare place."""
    missed: str = ""
    """Which rare places a long campaign did not reach often enough."""

    def add(self, report: Report) -> None:
        """One more run."""
        hours = report.seconds / 3600
        self.seeds += 1
        self.hours += hours
        self.processor_s += report.took
        for name, count in report.figures.items():
            self.counts[name] = self.counts.get(name, 0) + count
        pace = self.paces.setdefault(report.plan.pace, {"seeds": 0, "hours": 0.0, "processor_s": 0.0, "faults": 0})
        pace["seeds"] += 1
        pace["hours"] += hours
        pace["processor_s"] += report.took
        if report.plan.two_in_sync:
            self.two_in_sync += hours
        pace["faults"] += sum(action.fault for action in report.plan.actions)
        self.members += report.plan.members
        self.attacked += bool(report.plan.cluster.get("liars"))
        self.rare.update(report.rare)
        if report.findings:
            self.failed.append(report.plan.seed)

    def line(self) -> str:
        """Progress, on one line."""
        rate = self.hours / (self.processor_s / 3600) if self.processor_s else 0.0
        counts = self.counts
        paces = "; ".join(
            f"{name} {of['seeds']} seeds, {of['hours']:.2f} h, {of['faults']} faults" for name, of in self.paces.items()
        )
        rarest_of = rarest(self.rare, MEMBER_PLACES * bool(self.members) + LIAR_PLACES * bool(self.attacked))
        rare = f", rarest place: {rarest_of}" if rarest_of else ""
        two = f", {self.two_in_sync:.2f} h of them with two in sync" if self.two_in_sync else ""
        return (
            f"{self.seeds} seeds, {self.hours:.2f} h simulated{two} in {self.processor_s:.0f} s of "
            f"processor time ({rate:.0f} h/h), {counts.get('sent', 0)} sent, "
            f"{counts.get('kills', 0)} kills, {counts.get('cuts', 0)} cuts, {len(self.failed)} failed{rare} ({paces})"
        )

    def figures(self) -> dict[str, Any]:
        """For programs."""
        return {
            "seeds": self.seeds,
            "hours": round(self.hours, 3),
            "two_in_sync_hours": round(self.two_in_sync, 3),
            "processor_s": round(self.processor_s, 1),
            "elapsed_s": round(self.pace.seconds, 1),
            "failed": self.failed,
            **self.counts,
            "paces": self.paces,
            "rare": dict(self.rare),
        }


def run(wanted: argparse.Namespace) -> Outcome:
    """Run what the command line says."""
    outcome = Outcome()
    tell = teller(wanted.json)
    try:
        for name, plan in _plans(wanted, outcome, tell):
            report = run_plan(plan)
            outcome.add(report)
            if wanted.story:
                tell("\n".join(report.story))
            if report.findings:
                tell_failure(report, name, tell)
                if not wanted.no_shrink:
                    tell_shrunk(report, wanted.shrink_runs, tell)
                if not wanted.keep_going:
                    break
            if outcome.pace.due():
                tell(outcome.line())
    finally:
        tell(outcome.line())
        if outcome.rare:
            seeds = f"{outcome.members} seeds that damage members and {outcome.attacked} with attackers"
            tell(f"rare places, with {seeds}:\n{table(outcome.rare)}")
    places = to_reach(outcome.members, outcome.attacked)
    if wanted.rare is not None:
        places = LIAR_PLACES * bool(outcome.attacked) + MEMBER_PLACES * (outcome.members > 0 or not outcome.attacked)
    outcome.missed = too_rare(outcome.rare, LEAST if wanted.rare is None else wanted.rare, places)
    if outcome.missed:
        tell(f"FAILED: {outcome.missed}")
    tell(f"FAILED: seeds {', '.join(map(str, outcome.failed))}" if outcome.failed else "every promise was kept")
    return outcome


def _plans(wanted: argparse.Namespace, outcome: Outcome, tell: Callable[[str], None]) -> Iterator[tuple[str, Plan]]:
    if wanted.plan:
        yield f"--plan {wanted.plan}", Plan.decode(wanted.plan.read_text())
        return
    if wanted.corpus:
        for entry in corpus():
            if wanted.only in entry.name:
                yield f"--corpus --only {entry.name!r}", entry.plan()
        return
    first = new_seed() if wanted.seed is None else wanted.seed
    tell(f"from seed {first}")
    limits = (wanted.hours, wanted.cuts, wanted.minutes, wanted.seeds)
    seeds = wanted.seeds or (SEEDS if not any(limits) else None)
    seed = first
    while not (
        (seeds is not None and seed - first >= seeds)
        or (wanted.hours and outcome.hours >= wanted.hours)
        or (wanted.cuts and outcome.counts.get("cuts", 0) >= wanted.cuts)
        or (wanted.minutes and outcome.pace.seconds >= wanted.minutes * 60)
    ):
        seconds = f" --seconds {wanted.seconds:g}" if wanted.seconds else ""
        if wanted.among in (None, kind_of(seed)):
            plan = draw(seed, wanted.seconds)
            if plan.two_in_sync or not wanted.two_in_sync:
                yield f"--seed {seed} --seeds 1{seconds}", plan
        seed += 1


def tell_failure(report: Report, name: str, tell: Callable[[str], None]) -> None:
    """What was broken, and how to see it again."""
    tell(f"\nFAILED: seed {report.plan.seed}, digest {report.digest}, after {report.seconds:.1f} simulated s")
    for finding in report.findings[:FINDINGS_SHOWN]:
        tell(f"  {finding}")
    if len(report.findings) > FINDINGS_SHOWN:
        tell(f"  and {len(report.findings) - FINDINGS_SHOWN} more")
    tell(f'again: make simulate ARGS="{name}"')


def tell_shrunk(report: Report, runs: int, tell: Callable[[str], None]) -> Plan:
    """Make a failing plan small and print it, with what happens in it."""
    promises = report.promises
    last = [report]

    def fails(plan: Plan) -> bool:
        tried = run_plan(plan)
        again = bool(tried.promises & promises)
        if again:
            last[0] = tried
        return again

    shrinker = Shrinker(fails, runs, lambda text: tell(f"  shrinking: {text}"))
    small = shrinker.shrink(report.plan)
    path = Path(f"simulation-{report.plan.seed}.json")
    path.write_text(small.encode())
    tell(f"\nthe smallest plan of {shrinker.runs} runs, also in {path}:\n{small.story()}")
    tell("\nwhat happens in it, the newest lines:")
    for line in last[0].story[-STORY_SHOWN:]:
        tell(f"  {line[:160]}")
    for finding in last[0].findings[:FINDINGS_SHOWN]:
        tell(f"  {finding}")
    tell(f'again: make simulate ARGS="--plan {path} --story --no-shrink"')
    return small


@dataclass(frozen=True)
class Entry:
    """An old failure: a seed as it was drawn, or a plan that was made small."""

    name: str
    why: str
    seed: int
    seconds: float | None = None
    small: str = ""
    fault: str = ""
    """The known fault that it finds."""

    def plan(self) -> Plan:
        """The plan to run."""
        return Plan.decode(self.small) if self.small else draw(self.seed, self.seconds)


def corpus() -> list[Entry]:
    """The old failures, in the order of the file."""
    found = tomllib.loads(CORPUS.read_text())
    return [Entry(**entry) for entry in found.get("failure", [])]
