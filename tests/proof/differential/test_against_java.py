"""The same requests to Bolide and to RocketMQ 5.5.0: the corpus of past differences, and some random sequences."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from proof.differential.__main__ import told
from proof.differential.generate import sequence
from proof.differential.listed import Entry, load
from proof.differential.run import Run
from proof.differential.sides import Side, clusters
from proof.differential.steps import load as load_steps
from proof.differential.steps import to_json
from proof.kit.children import start
from proof.kit.waiting import PROCESS_PATIENCE, wait_until

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "proof" / "differential" / "corpus"
CORPUS = sorted(FOLDER.glob("*.json"))
LOOKS = 4

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.xdist_group("differential")]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with clusters(tmp_path_factory.mktemp("differential")) as sides:
        yield sides


def test_earlier_differences_are_equal_or_listed(both: tuple[Side, Side]) -> None:
    entries = load()
    run = Run(*both, entries, "c")
    hits: Counter[str] = Counter()
    for file in CORPUS:
        outcome = run.sequence(load_steps(file))
        assert outcome.found is None, f"make differential ARGS='--replay {file}'\n{told(outcome.found)}"
        hits.update(outcome.hits)
    missed = {entry.name for entry in entries if not hits[entry.name] and not entry.unseen and not shown(run, entry)}
    assert missed == set(), "listed differences that the corpus does not show: are they still there?"


def shown(run: Run, entry: Entry) -> bool:
    """Whether another run of its own sequence shows it: one that depends on the moment may need some.

    Java takes a sample of its rates every 10 s. If it does so between the two requests of that sequence, the rates are
    equal.
    """
    file = FOLDER / f"{re.sub(r'[^a-z0-9]+', '-', entry.name.lower())}.json"
    return file.exists() and any(entry.name in run.sequence(load_steps(file)).hits for _ in range(LOOKS))


@pytest.mark.parametrize("number", range(4))
def test_random_sequences_are_equal(both: tuple[Side, Side], number: int) -> None:
    steps = sequence(f"7/{number}")
    outcome = Run(*both, load(), f"r{number}").sequence(steps)
    words = f"make differential ARGS='--requests 1 --seed 7 --first {number}'"
    assert outcome.found is None, f"{words}\n{told(outcome.found)}\n{to_json(steps)}"


@pytest.mark.parametrize("begun", ["java-namesrv/namesrv.out", "java-broker/broker.out", "java-broker/store/commitlog"])
def test_a_run_that_is_ended_leaves_no_server(begun: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "proof.differential", "--folder", str(folder), "--seed", "7"]
    with start(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        wait_until((folder / begun).exists, f"{begun} is there")
        run.terminate()
        _, errors = run.communicate(timeout=PROCESS_PATIENCE)
    assert "interrupted" in errors, errors
    assert [one for one in Path("/proc").glob("[0-9]*") if str(folder) in _command_line(one)] == []


def _command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended
        return ""
