"""Extension field of Bolide in the response to a pull that meets a damaged record.

RocketMQ's clients ignore it, and its brokers do not send it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_KEY: Final = "bolideDamaged"


def damaged_ext() -> dict[str, str]:
    """Return the field to send."""
    return {_KEY: "true"}


def names_damage(ext: Mapping[str, str]) -> bool:
    """Return whether these are the fields of a response to a pull that met a damaged record."""
    return ext.get(_KEY) == "true"
