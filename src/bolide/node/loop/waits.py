"""Tells the services what waits in the loop. Implements `broker.core.waiting.WhatWaits`."""

from __future__ import annotations

from bolide.node.loop.executor import Executor


class Waits:
    """Of one executor."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def for_turn(self, codes: frozenset[int]) -> tuple[int, int]:
        """Requests that a turn had no more time for."""
        return self._executor.outbox.waiting_for_turn(codes)

    def oldest_send(self, now: int) -> int:
        """Of those whose answer waits for the log."""
        return self._executor.gate.oldest(now)
