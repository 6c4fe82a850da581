"""The same requests to Bolide and to RocketMQ 5.5.0: the corpus of past differences, and some random sequences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from proof.differential.__main__ import told
from proof.differential.generate import sequence
from proof.differential.listed import load
from proof.differential.run import Run
from proof.differential.sides import Side, clusters
from proof.differential.steps import load as load_steps
from proof.differential.steps import to_json

CORPUS = sorted((Path(__file__).resolve().parents[3] / "proof" / "differential" / "corpus").glob("*.json"))

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.xdist_group("java-brokers")]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with clusters(tmp_path_factory.mktemp("differential")) as sides:
        yield sides


def test_what_was_different_once_is_equal_or_listed(both: tuple[Side, Side]) -> None:
    entries = load()
    run = Run(*both, entries, "c")
    hits: Counter[str] = Counter()
    for file in CORPUS:
        outcome = run.sequence(load_steps(file))
        assert outcome.found is None, f"make differential ARGS='--replay {file}'\n{told(outcome.found)}"
        hits.update(outcome.hits)
    missed = {entry.name for entry in entries if not hits[entry.name] and not entry.unseen}
    assert missed == set(), "listed differences that the corpus does not show: are they still there?"


@pytest.mark.parametrize("number", range(4))
def test_random_sequences_are_equal(both: tuple[Side, Side], number: int) -> None:
    steps = sequence(f"7/{number}")
    outcome = Run(*both, load(), f"r{number}").sequence(steps)
    words = f"make differential ARGS='--requests 1 --seed 7 --first {number}'"
    assert outcome.found is None, f"{words}\n{told(outcome.found)}\n{to_json(steps)}"
