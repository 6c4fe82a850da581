"""Selection of the long tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runner.long_tests import chosen, head_commit


def test_the_quarters_of_four_commits_are_all_long_tests() -> None:
    tests = [f"test_{number}" for number in range(30)]
    quarters = [chosen(tests, "quarter", f"abc{digit}") for digit in "0123"]
    assert sorted(test for quarter in quarters for test in quarter) == sorted(tests)
    assert {len(quarter) for quarter in quarters} <= {7, 8}


def test_choices_none_and_all() -> None:
    assert chosen(["a", "b"], "none", "0") == []
    assert chosen(["a", "b"], "all", "0") == ["a", "b"]


def test_a_quarter_needs_a_checkout(tmp_path: Path) -> None:
    with pytest.raises(pytest.UsageError, match="git checkout"):
        head_commit(tmp_path)
