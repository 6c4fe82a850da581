"""Which connection closes when a port of pages has too many: the oldest that waits for its peer, never the newest.

A peer that opens connections and finishes no request would otherwise keep everybody else out. A peer that means well
sends its request at once, so it is among the newest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Crowded(Protocol):
    """A connection, as far as this rule goes."""

    @property
    def number(self) -> int:
        """Of two connections the one with the larger number stays."""

    @property
    def waits(self) -> bool:
        """Whether it waits for its peer: for the rest of a request, or for room to write an answer."""

    @property
    def closing(self) -> bool:
        """Whether it is closed already, and only still listed."""

    def abort(self) -> None:
        """Close it without a wait for its peer."""


def make_room(connections: Iterable[Crowded], most: int) -> None:
    """If more than `most` connections are open, close the oldest that waits for its peer."""
    opened = [each for each in connections if not each.closing]
    if len(opened) <= most:
        return
    oldest = min((each for each in opened if each.waits), key=lambda each: each.number, default=None)
    if oldest is not None:
        oldest.abort()
