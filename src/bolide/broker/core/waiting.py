"""What waits in the loop around the services, for those who tell an operator of it."""

from __future__ import annotations

from typing import Protocol


class WhatWaits(Protocol):
    """Requests and sends that wait at this moment."""

    def for_turn(self, codes: frozenset[int]) -> tuple[int, int]:
        """How many requests with these codes wait for their turn of the loop, and since when the first does (ms)."""

    def oldest_send(self, now: int) -> int:
        """How long (ms) the first of the sends that wait for the log has waited; 0 without any."""


class NothingWaits:
    """Where there is no loop."""

    def for_turn(self, codes: frozenset[int]) -> tuple[int, int]:
        """None."""
        return 0, 0

    def oldest_send(self, now: int) -> int:
        """None."""
        return 0
