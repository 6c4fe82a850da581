"""A short run of the fuzzer: every target over its stored inputs, some of its seeds and a few hundred new inputs.

The new inputs follow from a fixed seed, so a run repeats. `make fuzz` looks further.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from proof.fuzz.__main__ import main
from proof.fuzz.corpus import stored
from proof.fuzz.minimise import minimised
from proof.fuzz.mutation import mutated
from proof.fuzz.plain_engine import fresh, run_fresh
from proof.fuzz.registry import TARGETS
from proof.fuzz.seeds import CORPUS
from proof.fuzz.target import Broken, Limits, Target
from proof.fuzz.watch import run_watched

SEED = 20261122
FRESH = 300
SEEDS = 40
LARGEST_CORPUS = 500_000


@pytest.fixture(params=TARGETS.values(), ids=lambda target: target.name)
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    yield request.param
    request.param.close()


def test_stored_inputs(target: Target) -> None:
    seeds = list(target.seeds())
    most = max(int(SEEDS / target.cost), 2)
    inputs = [path.read_bytes() for path in stored(target)] + seeds[:: max(len(seeds) // most, 1)]
    for data in inputs:
        assert run_watched(target, data, memory=True) is None
        if target.limits.steps:
            assert run_watched(target, data, steps=True) is None


def test_new_inputs(target: Target) -> None:
    for _, data in zip(range(max(int(FRESH / target.cost), 3)), fresh(target, SEED), strict=False):
        assert run_watched(target, data) is None


def test_the_corpus_is_small_and_of_known_targets() -> None:
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert {path.parent.name for path in files} <= TARGETS.keys()
    assert sum(path.stat().st_size for path in files) < LARGEST_CORPUS


def faulty(data: bytes) -> None:
    if b"bad" in data:
        raise Broken("it has bad in it")
    if b"long" in data:
        bytes(4 << 20)
    if b"turns" in data:
        for _ in range(10_000):
            pass


FAULTY = Target(
    "faulty", faulty, lambda: [b"is this ba?", b"good"], Limits(memory=1 << 20, steps=2000), words=(b"bad",), largest=50
)


def test_a_fault_is_found_and_its_input_made_small() -> None:
    run = run_fresh(FAULTY, 1, 2000)
    (finding,) = run.findings.values()
    assert (finding.kind, finding.data) == ("Broken", b"bad")
    assert finding.signature == next(iter(run_fresh(FAULTY, 1, 2000).findings))


def test_memory_and_lines_have_limits() -> None:
    assert run_watched(FAULTY, b"long") is None and run_watched(FAULTY, b"turns") is None
    much = run_watched(FAULTY, b"long", memory=True)
    assert much is not None and much.kind == "Memory"
    many = run_watched(FAULTY, b"turns", steps=True)
    assert many is not None and many.kind == "TooManySteps"


def test_a_finding_that_does_not_come_back_stays_as_it_was() -> None:
    found = run_watched(FAULTY, b"a bad one")
    assert found is not None
    calls = iter([b"a bad one"])
    once = Target("faulty", lambda data: faulty(next(calls, b"")), list)
    assert minimised(once, found).data == b"a bad one"


def test_inputs_repeat_by_their_seed() -> None:
    first = [data for _, data in zip(range(50), fresh(FAULTY, 1), strict=False)]
    assert first == [data for _, data in zip(range(50), fresh(FAULTY, 1), strict=False)]
    assert first != [data for _, data in zip(range(50), fresh(FAULTY, 2), strict=False)]
    assert mutated.__module__ == "proof.fuzz.mutation"


def test_a_stored_input_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "marks").mkdir()
    path = tmp_path / "marks" / "found-x"
    path.write_bytes(b'{"topic": "T", "offset": 1}\n')
    assert main(["--replay", str(path)]) == 0
    assert "nothing is wrong with marks" in capsys.readouterr().out
    assert main(["--replay", str(tmp_path / "marks")]) == 2


def test_a_short_run_prints_a_line_a_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "preamble", "--minutes", "0.005", "--engine", "plain", "--seed", "1"]) == 0
    told = capsys.readouterr().out
    assert "plain engine, seed 1" in told and "\npreamble " in told and "nothing found" in told
    assert main(["--only", "nosuch"]) == 2
