"""Power cuts at random calls, a short run: new lives, and those that once found something."""

from __future__ import annotations

import pytest

from proof.simulation.cuts.__main__ import main
from proof.simulation.cuts.every_call import SCENARIOS, Case, problems_of
from proof.simulation.cuts.life import Life

FOUND = ["20261122/51", "20261122/128", "20261122/215", "3/2", "3/4", "1/1", "4/2"]
"""Lives in which something was wrong before it was mended."""


@pytest.mark.parametrize("life", FOUND)
def test_earlier_faults_stay_fixed(life: str) -> None:
    assert Life(life).run().problems == []


def test_the_same_seed_lives_the_same_life() -> None:
    first, second = (Life("7/7", cuts=4).run() for _ in range(2))
    assert first.trace == second.trace and first.cuts >= 4


def test_a_few_cuts_lose_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cuts", "40", "--seed", "short", "--json"]) == 0
    assert '"failed_lives": 0' in capsys.readouterr().out


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_a_fault_at_some_call_of_each_scenario(scenario: str, error: str) -> None:
    for call, lasting, restart in ((5, False, "kill"), (8, True, "stop"), (16, False, "power cut")):
        assert not problems_of(Case(scenario, error, call, lasting, restart))


def test_a_store_that_loses_what_it_acknowledged_is_found_out() -> None:
    life = Life("7/9", cuts=3)
    life.run()
    lost = next(sent for sent in life.book.sent.values() if sent.state == "done" and sent.place >= 0)
    start = lost.place - lost.place % life.options.shape.mapped_file_size_commit_log
    life.disk.flip(f"/machine/store/commitlog/{start:020d}", lost.place - start + 30)
    assert any(lost.uid in problem and "is lost" in problem for problem in life.checks.after_recovery(True))
