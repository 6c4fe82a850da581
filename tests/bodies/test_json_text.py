"""JSON objects as bodies."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from bolide.bodies.json_text import JsonEncoder
from bolide.bodies.registry import UnfitBody


def test_fields_that_are_null_are_left_out_and_times_are_in_utc() -> None:
    values = {
        "name": "é",
        "none": None,
        "place": {"city": None, "zip": 1},
        "parts": [1, None],
        "at": datetime(2026, 3, 1, 13, 0, 0, 5, tzinfo=timezone(timedelta(hours=1))),
        "local": datetime(2026, 3, 1, 12, tzinfo=UTC).replace(tzinfo=None),
        "day": date(2026, 3, 1),
    }
    assert json.loads(JsonEncoder().encode(values)) == {
        "name": "é",
        "place": {"zip": 1},
        "parts": [1, None],
        "at": "2026-03-01T12:00:00.000005Z",
        "local": "2026-03-01T12:00:00",
        "day": "2026-03-01",
    }
    assert JsonEncoder().encode({"at": datetime(2026, 1, 1, tzinfo=UTC)}) == b'{"at":"2026-01-01T00:00:00Z"}'


def test_decimals_are_numbers_with_all_digits() -> None:
    values = {"a": Decimal("1.50"), "b": [Decimal("1E+20"), Decimal("-0.00000001")]}
    assert JsonEncoder().encode(values) == b'{"a":1.50,"b":[100000000000000000000,-0.00000001]}'


def test_a_required_field_may_not_be_null() -> None:
    assert JsonEncoder(["id"]).encode({"id": 0}) == b'{"id":0}'
    with pytest.raises(UnfitBody, match="it lacks the field id, which its schema requires"):
        JsonEncoder(["id"]).encode({"id": None})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"x", Decimal("NaN"), "\ud800"], ids=repr)
def test_a_value_without_a_form_in_json_is_refused(value: object) -> None:
    with pytest.raises(UnfitBody, match="JSON cannot represent it"):
        JsonEncoder().encode({"x": value})
