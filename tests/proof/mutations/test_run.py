"""`python -m proof.mutations` injects bugs into copies of the sources, and says which of them tests noticed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from proof.mutations.mutation import ROOT, mutations


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command from the root of the checkout."""
    command = [sys.executable, "-m", "proof.mutations", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_sample_of_mutations_is_noticed_in_a_copy() -> None:
    before = {path: path.stat().st_mtime_ns for path in (ROOT / "src/bolide/layout").rglob("*.py")}
    done = run("--only", "layout/record:", "--sample", "3", "--seed", "7")
    assert done.returncode == 0, done.stdout + done.stderr
    listed = [mutation for mutation in mutations() if mutation.title.startswith("layout/record:")]
    assert f"3 of {len(listed)} mutations, drawn by --sample 3 --seed 7" in done.stdout
    assert done.stdout.count("noticed   ") == 3
    assert "3/3  noticed" in done.stdout
    assert "3        3  100.0% in " in done.stdout
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("--only", "no such title"), 1, "mutations: no mutation has 'no such title' in its title"),
        (("--seed", "7"), 2, "add --sample COUNT"),
        (("--corpus",), 2, "add --known-faults"),
    ],
)
def test_wrong_arguments_are_refused(arguments: tuple[str, ...], code: int, why: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert why in done.stderr
