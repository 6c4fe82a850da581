"""Detects a disk that hangs without an error: requests wait for the log, but the log makes no progress."""

from __future__ import annotations

from typing import Final

LONGEST_STEP_MS: Final = 2000
"""Maximum time that is counted between two calls of `looked`. A process that was suspended for longer did not wait for
its disk."""


class Settling:
    """Watches one log, which is considered hung after `patience` ms without progress."""

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._progress = -1
        self._at = 0
        self._waited = 0

    @property
    def hung(self) -> bool:
        """Whether requests have waited for too long. Remains True until there is progress or no request waits."""
        return self._waited > self._patience

    def looked(self, *, waits: bool, progress: int, now: int) -> bool:
        """Update and return `hung`. Call this about once per second. `waits`: whether requests wait for the log.
        `progress`: a number that changes whenever the disk completes work. `now`: ms."""
        step, self._at = min(now - self._at, LONGEST_STEP_MS), now
        stands = waits and progress == self._progress
        self._waited = self._waited + step if stands else 0
        self._progress = progress
        return self.hung
