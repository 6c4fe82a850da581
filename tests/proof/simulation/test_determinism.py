"""The same seed is the same run: byte for byte, twice in one process, whatever PYTHONHASHSEED, compiled or not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from bolide import _impl
from proof.simulation import rehearsal

ROOT = Path(__file__).parent.parent.parent.parent
SEEDS = (1,)
BOTH_WAYS = (1, "burst-1", "burst-2", "burst-6")
"""Two of the bursts meet a broker that has no time for a whole read."""


def rehearsed(runs: Iterable[int | str], **environment: str) -> str:
    """What another process prints about these runs."""
    return subprocess.run(
        [sys.executable, "-m", "proof.simulation.rehearsal", *map(str, runs)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    ).stdout


def test_a_seed_gives_the_same_trace_and_disks_whatever_the_hashes_of_texts() -> None:
    first = rehearsed(SEEDS, PYTHONHASHSEED="1")
    assert first == rehearsed(SEEDS, PYTHONHASHSEED="2")
    here = rehearsal.run(SEEDS[0])
    assert f"{SEEDS[0]} {here.digest} {rehearsal.disks(here)} " in first
    assert here.faults == []


@pytest.mark.skipif(not _impl.extensions(), reason="nothing is compiled here")
def test_a_seed_gives_the_same_run_compiled_and_interpreted() -> None:
    """Whatever way sends take: that of the native kernel, many at once, or the ordinary one."""
    compiled = rehearsed(BOTH_WAYS, BOLIDE_IMPL="compiled")
    assert compiled == rehearsed(BOTH_WAYS, BOLIDE_IMPL="python")
    assert len(compiled.splitlines()) == len(BOTH_WAYS)


def test_another_seed_gives_another_run() -> None:
    assert rehearsal.run(3).digest != rehearsal.run(4).digest
