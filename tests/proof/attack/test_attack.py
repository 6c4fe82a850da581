"""A short attack, as `make attack` runs it until somebody interrupts it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from proof.attack.__main__ import options_of, plan_of
from proof.attack.fault_shim import ROOT
from proof.attack.faults import FAULTS
from proof.kit import children

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="the shim is Linux'"),
    pytest.mark.xdist_group("attack"),
]
COMMAND = [sys.executable, "-m", "proof.attack", "--no-mount", "--bound", "240", "--json"]
ENOUGH = 8
"""Faults."""


def test_a_short_attack_holds_and_gives_its_verdict_when_interrupted(tmp_path: Path) -> None:
    folder = tmp_path / "attack"
    arguments = ["--minutes", "60", "--pause", "0.2", "--at-once", "3", "--only-brokers", "--folder", str(folder)]
    process = children.start(
        [*COMMAND, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    said = [process.stderr.readline()]
    while said[-1] and len([line for line in said if " s  " in line and "--" not in line]) < ENOUGH:
        said.append(process.stderr.readline())
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate()
    assert process.returncode == 0, "".join(said) + out + errors
    found = json.loads(out)
    assert found["held"]
    assert found["interrupted"]
    assert found["acknowledged"] > 0
    assert found["in_queues"] > 0
    assert set(found["faults"]) <= set(FAULTS)
    assert not folder.exists()


def test_an_unknown_fault_is_refused() -> None:
    done = subprocess.run([*COMMAND, "--faults", "earthquake"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no fault is called earthquake" in done.stderr


def test_a_broken_run_says_how_to_repeat_all_of_it(tmp_path: Path) -> None:
    given = "--seed 7 --minutes 0.5 --faults kill,clock --bound 60 --brokers 3 --pause 0.2 --at-once 4"
    for options in (given, f"{given} --only-brokers --no-mount"):
        plan, _, _ = plan_of([*options.split(), "--folder", str(tmp_path)])
        assert " ".join(options_of(plan)) == options
