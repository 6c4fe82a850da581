"""Logs failed writes to disk: the operation, the file, the consequence, and the remedy.

A full disk fails in every turn. The same failure is logged once per ten seconds, with the number of repetitions.
"""

from __future__ import annotations

import logging
from typing import Final

from bolide.store.disk.file_contract import DiskFull, FileFailed

SAME_AGAIN_MS: Final = 10_000


class DiskFailures:
    """Logs the disk failures of one node."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said = ""
        self._said_at = 0
        self._untold = 0

    def note(self, what: str, error: FileFailed, now: int) -> None:
        """Log a failure. `now`: ms since the epoch."""
        said = str(error)
        if said == self._said and 0 <= now - self._said_at < SAME_AGAIN_MS:
            self._untold += 1
            return
        before = f" ({self._untold} more times since the last line)" if self._untold else ""
        self._said, self._said_at, self._untold = said, now, 0
        advice = "make room on the disk" if isinstance(error, DiskFull) else "check the disk and its file system"
        self._log.error(
            "%s failed: %s%s; rejecting the requests that wait for it, the next request retries: %s",
            what,
            error,
            before,
            advice,
        )
