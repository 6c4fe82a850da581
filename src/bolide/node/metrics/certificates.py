"""Metric of the days until the certificates of a server expire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bolide.monitor.families import Families

DAY_MS: Final = 86_400_000


def add_certificates(families: Families, ends: Mapping[str, int], wall: int) -> None:
    """Add the days from `wall` until each certificate expires. `ends`: expiry times by file. All times are ms since
    1970."""
    for path, end in ends.items():
        days = (end - wall) / DAY_MS
        families.gauge("bolide_certificate_days_left", "Days until a certificate ends.", days, file=path)
