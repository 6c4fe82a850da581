"""Reports to services how much work is pending in the loop. Implements `broker.core.waiting.WhatWaits`."""

from __future__ import annotations

from bolide.node.loop.executor import Executor


class Waits:
    """Pending work of one executor."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def for_turn(self, codes: frozenset[int]) -> tuple[int, int]:
        """Return the number of requests with these codes that wait for a turn, and the time (ms) since which the oldest
        one has waited."""
        return self._executor.outbox.waiting_for_turn(codes)

    def oldest_send(self, now: int) -> int:
        """Return how long (ms) the oldest pending send has waited for the log."""
        return self._executor.gate.oldest(now)
