"""Dispatch with retries: pauses and retries if a queue or index file cannot be written."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from bolide.store.background.arrival import Arrival
from bolide.store.background.maintenance import Maintenance
from bolide.store.background.reput import Reput
from bolide.store.background.running_flags import INDEX_ERROR, LOGIC_QUEUE_ERROR, RunningFlags
from bolide.store.disk.files import FileFailed
from bolide.store.index.index_service import IndexService

RETRY_MS: Final = 1000
LONGEST_RETRY_MS: Final = 5000
DISPATCH_TRIES: Final = 3
"""Number of failed attempts after which sends are rejected, because they would have to wait for the file."""


@final
class ReputRetry:
    """Runs the `Reput` of one store."""

    def __init__(self, reput: Reput, index: IndexService, flags: RunningFlags, maintenance: Maintenance) -> None:
        self._reput = reput
        self._index = index
        self._flags = flags
        self._maintenance = maintenance
        self._failed_at: i64 = 0
        self._failed: i64 = 0
        """Number of consecutive failed attempts, the last one at `_failed_at`."""

    def run(self, confirm_offset: i64, budget: i64, now: i64) -> list[Arrival]:
        """Dispatch like `Reput.run`. Return [] after a failure and during the pause that follows it."""
        failed = self._failed
        if failed > 0:
            pause: i64 = min(RETRY_MS << min(failed - 1, 8), LONGEST_RETRY_MS)
            if 0 <= now - self._failed_at < pause:
                return []
        try:
            arrivals = self._reput.run(confirm_offset, budget, now)
        except FileFailed as error:
            self._note_failure(error, now)
            return []
        if failed > 0:
            self._failed = 0
            self._maintenance.dispatch_fails = False
            self._flags.clear(INDEX_ERROR)
            if self._maintenance.failed_flushes == 0:
                self._flags.clear(LOGIC_QUEUE_ERROR)
        return arrivals

    def _note_failure(self, error: FileFailed, now: i64) -> None:
        """Schedule a retry with the same record: a full disk or a lack of descriptors may be temporary."""
        self._failed_at = now
        self._failed += 1
        self._maintenance.problem = str(error)
        of_index = self._index.folder in str(error)
        self._maintenance.dispatch_fails = not of_index
        if self._failed >= DISPATCH_TRIES:
            self._flags.set(INDEX_ERROR if of_index else LOGIC_QUEUE_ERROR)
