"""The same seed is the same run: byte for byte, twice in one process, and whatever PYTHONHASHSEED."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from proof.simulation import rehearsal

ROOT = Path(__file__).parent.parent.parent.parent
SEEDS = (1,)


def rehearsed(hash_seed: str) -> str:
    """What another process prints about the same seeds."""
    return subprocess.run(
        [sys.executable, "-m", "proof.simulation.rehearsal", *map(str, SEEDS)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    ).stdout


def test_a_seed_gives_the_same_trace_and_disks_whatever_the_hashes_of_texts() -> None:
    first = rehearsed("1")
    assert first == rehearsed("2")
    here = rehearsal.run(SEEDS[0])
    assert f"{SEEDS[0]} {here.digest} {rehearsal.disks(here)} " in first
    assert here.faults == []


def test_another_seed_gives_another_run() -> None:
    assert rehearsal.run(3).digest != rehearsal.run(4).digest
