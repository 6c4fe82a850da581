"""The engine without coverage: seeds, stored inputs and mutations of both, from one seed. It needs nothing installed.

CI runs it for seconds. It starts from the whole corpus, so what was once found is tried each time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from proof.fuzz.corpus import inputs
from proof.fuzz.minimise import minimised
from proof.fuzz.mutation import mutated
from proof.fuzz.target import Target
from proof.fuzz.watch import Finding, run_watched

MEASURED: Final = 16
"""Of so many inputs one is run with its memory measured, which takes several times as long."""


@dataclass
class Run:
    """What a run of one target came to."""

    target: str
    executions: int = 0
    collected: int = 0
    """New inputs of the coverage-guided engine."""
    seconds: float = 0.0
    findings: dict[str, Finding] = field(default_factory=dict)
    """By signature."""

    def add(self, finding: Finding) -> bool:
        """Keep a finding; False for one that is known."""
        known = finding.signature in self.findings
        self.findings.setdefault(finding.signature, finding)
        return not known


def run_stored(target: Target, measured: bool = True) -> Run:
    """Every seed and every stored input once, with memory and lines counted."""
    run = Run(target.name)
    begun = time.monotonic()
    try:
        for data in inputs(target):
            run.executions += 1
            found = run_watched(target, data, memory=measured) or (
                run_watched(target, data, steps=True) if measured and target.limits.steps else None
            )
            if found is not None:
                run.add(found)
    finally:
        target.close()
    run.seconds = time.monotonic() - begun
    return run


def run_fresh(target: Target, seed: int, executions: int | None, seconds: float | None = None) -> Run:
    """New inputs: so many, or for so long. A finding is minimised at once."""
    run = Run(target.name)
    begun = time.monotonic()
    try:
        for data in fresh(target, seed):
            if executions is not None and run.executions >= executions:
                break
            if seconds is not None and time.monotonic() - begun >= seconds:
                break
            measured = run.executions % MEASURED == MEASURED - 1
            run.executions += 1
            found = run_watched(target, data, memory=measured)
            if found is not None and run.add(found):
                run.findings[found.signature] = minimised(target, found, measured)
    finally:
        target.close()
    run.seconds = time.monotonic() - begun
    return run


def fresh(target: Target, seed: int) -> Iterator[bytes]:
    """Inputs without end."""
    chance = random.Random(f"{seed} {target.name}")
    known = inputs(target) or [b""]
    while True:
        yield mutated(chance.choice(known), chance, known, target.words, target.largest)
