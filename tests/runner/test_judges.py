"""The list of judging tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runner.judges import JUDGING

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("start", JUDGING)
def test_each_entry_names_a_folder_or_test_files(start: str) -> None:
    assert list((ROOT / start).rglob("test_*.py")) if start.endswith("/") else list(ROOT.glob(f"{start}*.py"))


def test_no_entry_repeats_another() -> None:
    assert [(one, other) for one in JUDGING for other in JUDGING if one != other and one.startswith(other)] == []
