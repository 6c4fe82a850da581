"""One line in the log for a disk that takes no write: what failed, where, what became of it, and what to do.

A full disk fails every turn. The same failure is told once in ten seconds, with the number of those between.
"""

from __future__ import annotations

import logging
from typing import Final

from bolide.store.disk.file_contract import DiskFull, FileFailed

SAME_AGAIN_MS: Final = 10_000


class DiskFailures:
    """Writes the lines of one node."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said = ""
        self._said_at = 0
        self._untold = 0

    def note(self, what: str, error: FileFailed, now: int) -> None:
        """Tell of a failure. `now`: ms since the epoch."""
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
