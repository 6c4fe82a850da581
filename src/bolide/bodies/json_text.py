"""JSON bodies: one object, without null fields."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime
from typing import Any

from bolide.bodies.registry import UnfitBody


class JsonEncoder:
    """Encodes JSON objects."""

    def __init__(self, required: Collection[str] = ()) -> None:
        """Every object must have the fields `required`."""
        self._required = frozenset(required)

    def encode(self, values: Mapping[str, Any]) -> bytes:
        """Return the text of an object. Times are in ISO 8601, and in UTC if they have a zone. Null fields are omitted,
        also in nested objects. Raises `UnfitBody` if JSON cannot represent a value."""
        present = _without_nulls(values)
        lacking = self._required - present.keys()
        if lacking:
            raise UnfitBody(f"it lacks the field {min(lacking)}, which its schema requires")
        try:
            text = json.dumps(present, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_time)
            return text.encode()
        except (TypeError, ValueError) as error:
            raise UnfitBody(f"JSON cannot represent it ({error})") from None


def _without_nulls(value: Any) -> Any:
    """Return a value without the null fields of its objects. Arrays keep their nulls."""
    if isinstance(value, Mapping):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value


def _time(value: Any) -> str:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"a value is {type(value).__name__}")
