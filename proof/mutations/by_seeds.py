"""Judges known faults by simulated runs: one of them must break a promise that the fault breaks.

The simulation is imported in the forks only, from the copy with the fault.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Final

from proof.mutations.bench import FAILED, PASSED, Done, Job, Judge
from proof.mutations.mutation import Mutation

FIRST_SEED: Final = 1
SEED_S: Final = 60.0
"""Simulated seconds of work and faults of a seed, as in the suite."""
LAST_RUN_SECONDS: Final = 300.0
"""Limit of the last run."""


class Seeds(Judge):
    """Judge of the known faults. Runs seeds for `minutes`, or with None the corpus's plans for each fault."""

    copied = ("src", "proof")
    enough = 1.0
    noticing = frozenset({FAILED})

    def __init__(self, minutes: float | None) -> None:
        super().__init__()
        self.limit = (minutes or 0) * 60 + LAST_RUN_SECONDS
        self._minutes = minutes

    def job(self, mutation: Mutation) -> Job:
        """Return the search for a fault."""
        if self._minutes is None:
            return Job(partial(run_corpus, mutation), mutation)
        return Job(partial(run_seeds, mutation, self._minutes), mutation)

    def details(self, done: Done) -> str:
        """Return the last lines that the job printed."""
        return "".join(f"\n  {line}" for line in done.output.splitlines()[-2:])


def run_seeds(mutation: Mutation, minutes: float, copy: Path) -> int:
    """Run seeds of the fault's kind until one breaks one of its promises or `minutes` have passed."""
    from proof.simulation.run import run_plan
    from proof.simulation.swarm import draw, kind_of

    began, simulated, spent, seed, seeds = time.monotonic(), 0.0, 0.0, FIRST_SEED, 0
    while time.monotonic() - began < minutes * 60:
        if mutation.among in ("", kind_of(seed)):
            seeds += 1
            report = run_plan(draw(seed, SEED_S))
            simulated += report.seconds
            spent += report.took
            broken = [finding for finding in report.findings if finding.promise in mutation.promises]
            if broken:
                print(f"seed {seed} after {seeds} seeds, {simulated / 60:.1f} simulated minutes, {spent:.0f} s", end="")
                print(f" of processor time\n{broken[0]}")
                return FAILED
        seed += 1
    print(f"not found in {seeds} seeds, {simulated / 60:.1f} simulated minutes, {spent:.0f} s of processor time")
    return PASSED


def run_corpus(mutation: Mutation, copy: Path) -> int:
    """Run the plans of the corpus that find the fault; each must break one of its promises."""
    from proof.simulation.campaign import corpus
    from proof.simulation.run import run_plan

    entries = [entry for entry in corpus() if entry.fault == mutation.name]
    missed = [entry.name for entry in entries if not run_plan(entry.plan()).promises & set(mutation.promises)]
    print(f"not found by: {', '.join(missed)}" if missed else f"found by: {', '.join(entry.name for entry in entries)}")
    return PASSED if missed or not entries else FAILED
