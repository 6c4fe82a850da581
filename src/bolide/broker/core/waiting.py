"""Pending work of the event loop, as reported to operators."""

from __future__ import annotations

from typing import Protocol


class WhatWaits(Protocol):
    """Currently pending requests and sends."""

    def for_turn(self, codes: frozenset[int]) -> tuple[int, int]:
        """Return how many requests with these codes wait for a turn, and the time (ms) since which the oldest one
        waits."""

    def oldest_send(self, now: int) -> int:
        """Return how long (ms) the oldest pending send has waited for the log, or 0 if none is pending."""


class NothingWaits:
    """Used without an event loop."""

    def for_turn(self, codes: frozenset[int]) -> tuple[int, int]:
        """Always 0."""
        return 0, 0

    def oldest_send(self, now: int) -> int:
        """Always 0."""
        return 0
