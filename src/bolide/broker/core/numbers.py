"""Numbers in the settings of topics and groups, from clients, operators and files, limited to Java's ranges.

A number outside Java's int would be in every registration of this broker, and name servers would reject it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bolide.broker.refused import Refused
from bolide.remoting.codes import INVALID_PARAMETER

INT_MIN: Final = -(1 << 31)
INT_MAX: Final = (1 << 31) - 1
LONG_MIN: Final = -(1 << 63)
LONG_MAX: Final = (1 << 63) - 1


def number(
    fields: Mapping[str, Any], key: str, usual: int, low: int = INT_MIN, high: int = INT_MAX, stored: bool = False
) -> int:
    """Return the number of this key, or `usual` if it is missing. Raises `Refused` 29 for an invalid value.

    `stored`: the fields are from a file. Then an invalid number is replaced by the nearest valid one.
    """
    value = fields.get(key)
    if value is None:
        return usual
    try:
        found = int(value)
    except (ValueError, TypeError, OverflowError):
        if stored:
            return usual
        raise Refused(INVALID_PARAMETER, f"{key} must be a number from {low} to {high}") from None
    if low <= found <= high:
        return found
    if stored:
        return low if found < low else high
    shown = found if LONG_MIN <= found <= LONG_MAX else "of more than 64 bits"
    raise Refused(INVALID_PARAMETER, f"{key} {shown} must be from {low} to {high}")
