"""Numbers of peers and files: within an int, or refused, or the nearest."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.broker.core.numbers import INT_MAX, INT_MIN, number
from bolide.broker.refused import Refused


@pytest.mark.parametrize(
    ("value", "found"), [(5, 5), ("7", 7), (None, 3), (2.0, 2), (True, 1), (INT_MAX, INT_MAX), (INT_MIN, INT_MIN)]
)
def test_valid_number_is_accepted(value: Any, found: int) -> None:
    assert number({"n": value}, "n", 3) == number({"n": value}, "n", 3, stored=True) == found
    assert number({}, "n", 3) == 3


@pytest.mark.parametrize(
    ("value", "nearest"),
    [(5_000_000_000, INT_MAX), (-(1 << 40), INT_MIN), (10**5000, INT_MAX), ("x", 3), ([], 3), (float("inf"), 3)],
    ids=["large", "small", "huge", "text", "list", "infinite"],
)
def test_invalid_number_is_rejected_and_clamped_if_stored(value: Any, nearest: int) -> None:
    with pytest.raises(Refused, match="^n .*from -2147483648 to 2147483647$") as no:
        number({"n": value}, "n", 3)
    assert no.value.response_code == 29
    assert number({"n": value}, "n", 3, stored=True) == nearest
