"""JSON bodies: one object, without null fields."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec

from bolide.bodies.registry import UnfitBody


class JsonEncoder:
    """Encodes JSON objects."""

    def __init__(self, required: Collection[str] = ()) -> None:
        """Every object must have the fields `required`."""
        self._required = frozenset(required)

    def encode(self, values: Mapping[str, Any]) -> bytes:
        """Return the text of an object. Times are in ISO 8601, and in UTC if they have a zone. Decimals have all their
        digits. Null fields are omitted, also in nested objects. Raises `UnfitBody` if JSON cannot represent a value."""
        lacking = self._required - {name for name, value in values.items() if value is not None}
        if lacking:
            raise UnfitBody(f"it lacks the field {min(lacking)}, which its schema requires")
        try:
            return msgspec.json.encode(_plain(values))
        except (TypeError, ValueError) as error:
            raise UnfitBody(f"JSON cannot represent it ({error})") from None


def _plain(value: Any) -> Any:
    """Return a value as msgspec encodes it, without the null fields of its objects. Arrays keep their nulls. Raises
    `TypeError` and `ValueError`."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (float, Decimal)):
        if not math.isfinite(value):
            raise ValueError(f"a value is {value}")
        return msgspec.Raw(f"{value:f}".encode()) if isinstance(value, Decimal) else value
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"a value is {type(value).__name__}")
