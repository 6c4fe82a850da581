"""Limits the connections of a port for pages: a new one closes the oldest that waits for its peer.

Otherwise a peer could open connections without a request until no other peer can connect. A proper peer sends its
request immediately, so its connection is among the newest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Crowded(Protocol):
    """The attributes of a connection that `make_room` uses."""

    @property
    def number(self) -> int:
        """Order of the connections: the smallest number closes first."""

    @property
    def waits(self) -> bool:
        """Whether the connection waits for its peer: for more of a request, or for room to write a response."""

    @property
    def closing(self) -> bool:
        """Whether the connection is already closing. `make_room` ignores it then."""

    def abort(self) -> None:
        """Close the connection without waiting for its peer."""


def make_room(connections: Iterable[Crowded], most: int) -> None:
    """If more than `most` connections are open, close the oldest one that waits for its peer."""
    opened = [each for each in connections if not each.closing]
    if len(opened) <= most:
        return
    oldest = min((each for each in opened if each.waits), key=lambda each: each.number, default=None)
    if oldest is not None:
        oldest.abort()
