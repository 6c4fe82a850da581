"""Limits the connections of the monitoring port: above the limit, the oldest one that waits for its peer is closed.

Otherwise a peer could open connections without a request until no other peer can connect. A well-behaved peer sends its
request immediately, so its connection is among the newest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Crowded(Protocol):
    """The attributes of a connection that `make_room` uses."""

    @property
    def number(self) -> int:
        """Order of the connections: the one with the smallest number is closed first."""

    @property
    def waits(self) -> bool:
        """Whether the connection waits for its peer to send the rest of a request or to read a response."""

    @property
    def closing(self) -> bool:
        """Whether the connection is already closing, so that `make_room` ignores it."""

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
