"""A short attack, as `make attack` runs it, and what becomes of one that is interrupted or finds something."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from proof.attack.fault_shim import ROOT
from proof.attack.faults import FAULTS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="the shim is Linux'"),
    pytest.mark.xdist_group("attack"),
]
COMMAND = [sys.executable, "-m", "proof.attack", "--no-mount", "--pause", "0.2", "--bound", "240", "--json"]


def test_a_short_attack_holds(tmp_path: Path) -> None:
    folder = tmp_path / "attack"
    # Without kills of consumers nothing waits until the locks of the dead lapse.
    arguments = ["--minutes", "0.1", "--folder", str(folder), "--at-once", "3"]
    done = subprocess.run([*COMMAND, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["held"]
    assert found["acknowledged"] > 0
    assert found["consumed"] >= found["acknowledged"] * 0.5
    assert set(found["faults"]) <= set(FAULTS)
    assert not folder.exists()


def test_an_interrupted_attack_still_gives_its_verdict(tmp_path: Path) -> None:
    folder = tmp_path / "attack"
    with subprocess.Popen(
        [*COMMAND, "--minutes", "60", "--faults", "stop", "--folder", str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        said = ""
        while "the faults begin" not in said:
            said = process.stderr.readline()
            assert said, "it ended before the faults began"
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate()
    assert process.returncode == 0, out + errors
    found = json.loads(out)
    assert found["interrupted"]
    assert found["held"]
    assert not folder.exists()


def test_an_unknown_fault_is_refused() -> None:
    done = subprocess.run([*COMMAND, "--faults", "earthquake"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no fault is called earthquake" in done.stderr
