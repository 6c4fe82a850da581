"""A few rounds of faults; `python -m tests.spark.fault_rounds --rounds 50` runs as many as one likes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.fault_rounds import Rounds

SEEDS = (2, 6, 7)


@pytest.mark.spark
@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_query_under_faults_loses_and_repeats_nothing(tmp_path: Path) -> None:
    rounds = Rounds(tmp_path)
    try:
        outcomes = [rounds.run(seed) for seed in SEEDS]
        assert [outcome.wrong for outcome in outcomes] == [""] * len(SEEDS), outcomes
        assert sum(outcome.deaths for outcome in outcomes) > 0
        assert [rounds.check(seed) for seed in SEEDS] == [""] * len(SEEDS)
    finally:
        rounds.close()
