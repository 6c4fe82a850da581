"""Runs the store's maintenance between turns, and logs skipped records, failed maintenance and rejected sends."""

from __future__ import annotations

import logging
from typing import Final

from bolide.broker.core.service import Service
from bolide.store.message_store import MessageStore

LOOK_MS: Final = 1000
SAME_AGAIN_MS: Final = 60_000
"""Interval at which a lasting problem is logged."""


class StoreUpkeep(Service):
    """Runs the ticks of the store."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def due(self, now: int) -> int | None:
        """Return when the store needs its next tick."""
        return int(self._store.due(now))

    def tick(self, now: int, budget: int) -> None:
        """Run one step of maintenance."""
        self._store.tick(now, budget)


class StoreWatch(Service):
    """Checks the store once per second, and logs problems. Serves no requests."""

    def __init__(self, store: MessageStore, log: logging.Logger, now: int) -> None:
        self._store = store
        self._log = log
        self._next = now + LOOK_MS
        self._said = ""
        self._problem = ""
        self._problem_at = 0

    def due(self, now: int) -> int | None:
        """Return the time of the next check."""
        return self._next

    def tick(self, now: int, budget: int) -> None:
        """Log each new problem once."""
        self._next = now + LOOK_MS
        store = self._store
        for skip in store.reput.take_skips():
            self._log.error("%s", skip)
        for refusal in store.queues.take_refusals():
            self._log.error("%s", refusal)
        problem = store.maintenance.take_problem()
        if problem and (problem != self._problem or not 0 <= now - self._problem_at < SAME_AGAIN_MS):
            self._log.error("the store: %s", problem)
            self._problem, self._problem_at = problem, now
        flags = store.flags.describe()
        if flags != self._said:
            if flags:
                self._log.error("the store rejects messages: %s", flags)
            else:
                self._log.warning("the store accepts messages again")
            self._said = flags
