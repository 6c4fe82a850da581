"""Delays that a listener may ask for."""

from __future__ import annotations

import pytest

from bolide.client import DEAD_LETTER, ArgumentError, RetryLater


@pytest.mark.parametrize("level", [DEAD_LETTER, 0, 1, 18])
def test_levels_that_exist(level: int) -> None:
    assert RetryLater(level).delay_level == level


@pytest.mark.parametrize("level", [-2, 19, 99, 1.5, True])
def test_level_that_does_not_exist_is_rejected(level: int) -> None:
    with pytest.raises(ArgumentError, match="delay_level"):
        RetryLater(level)
