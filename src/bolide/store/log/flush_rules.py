"""The rules of the asynchronous flush: RocketMQ's FlushRealTimeService (docs/protocol/store.md 7)."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from bolide.store.options import StoreOptions

PAGE: Final = 4096
EARLY_PAGES: Final = 4
"""Number of dirty pages at which a flush does not wait for its interval, if flushCommitLogLeastPages is 0."""


@final
class FlushRules:
    """The rules of one log. Times are ms since the epoch."""

    def __init__(self, options: StoreOptions) -> None:
        self._interval: i64 = options.flush_interval_commit_log
        self._timed: bool = options.flush_commit_log_timed
        self._least_pages: i64 = options.flush_commit_log_least_pages
        self._thorough_interval: i64 = options.flush_commit_log_thorough_interval
        self._last_look: i64 = 0
        self._last_thorough: i64 = 0

    def start_at(self, now: i64) -> None:
        """Restart both intervals."""
        self._last_look = self._last_thorough = now

    def due(self) -> i64:
        """Return when the current interval ends."""
        return self._last_look + self._interval

    def flush_soon(self) -> None:
        """Include everything in the next flush."""
        self._last_thorough = 0

    def wanted(self, flushed_offset: i64, written_offset: i64, now: i64) -> bool:
        """Return whether to flush now: the interval has passed (or enough pages are dirty not to wait for it), and the
        minimum number of pages is dirty or the thorough interval has passed. Restarts an interval that has passed."""
        pages = written_offset // PAGE - flushed_offset // PAGE
        early = not self._timed and pages >= (self._least_pages if self._least_pages > 0 else EARLY_PAGES)
        if now - self._last_look < self._interval and not early:
            return False
        self._last_look = now
        if now - self._last_thorough >= self._thorough_interval:
            self._last_thorough = now
            return True
        return pages >= self._least_pages
