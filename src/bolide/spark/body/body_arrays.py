"""Builds Arrow arrays from decoded bodies. A body with a value that does not fit its column is bad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

_UNFIT: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""Arrow's errors for such a value: an int with too many bits, text that is not UTF-8, a decimal with too many
digits."""


def arrays_of(
    data: list[dict[str, Any]],
    fields: Sequence[pa.Field[Any]],
    bad: dict[int, str],
    array: Callable[[list[Any], pa.DataType], Any] = pa.array,
) -> list[Any]:
    """Return one array per field, built by `array`. Empties the row of each bad body in `data`, and adds the reason to
    `bad`."""
    try:
        return [array([one.get(field.name) for one in data], field.type) for field in fields]
    except _UNFIT:
        for row, one in enumerate(data):
            for field in fields:
                try:
                    array([one.get(field.name)], field.type)
                except _UNFIT as error:
                    reason = (str(error).splitlines() or [type(error).__name__])[0]
                    bad[row], data[row] = f"its field {field.name} does not fit the column ({reason})", {}
                    break
        return [array([one.get(field.name) for one in data], field.type) for field in fields]
