"""Detects a disk that hangs without an error: requests wait for the log, but the log makes no progress."""

from __future__ import annotations

from typing import Final

LONGEST_STEP_MS: Final = 2000
"""Longest time that is counted between two calls of `looked`. A process that was stopped for longer did not wait for
its disk."""


class Settling:
    """Watches one log, which hangs after `patience` ms without progress."""

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._progress = -1
        self._at = 0
        self._waited = 0

    @property
    def hung(self) -> bool:
        """Whether requests have waited for too long. True until there is progress or no request waits."""
        return self._waited > self._patience

    def looked(self, *, waits: bool, progress: int, now: int) -> bool:
        """Look every second or so. `progress` is a number that changes when the disk does its work. Return `hung`."""
        step, self._at = min(now - self._at, LONGEST_STEP_MS), now
        stands = waits and progress == self._progress
        self._waited = self._waited + step if stands else 0
        self._progress = progress
        return self.hung
