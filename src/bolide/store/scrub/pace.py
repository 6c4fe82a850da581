"""Computes when the scrub may read next. A pass is spread over its interval, and stays within two limits."""

from __future__ import annotations

from typing import Final

from bolide.store.options import ScrubOptions

SLOWEST: Final = 256 * 1024
"""Bytes per second of a pass that has much time. A small store is checked in minutes, and then left alone."""
SPARE: Final = 0.9
"""Share of the interval in which a pass should end."""
OF_RETENTION: Final = 0.5
"""Share of the retention time in which a pass should end. Otherwise retention deletes files before the pass reads
them."""


class ScrubPace:
    """The rate of the current pass. Times are ms."""

    def __init__(self, options: ScrubOptions, retention_ms: int) -> None:
        self._options = options
        self._retention_ms = retention_ms
        self.cost = 0
        """Bytes that this pass has read since the broker started."""
        self._checked = 0

    def configure(self, options: ScrubOptions, retention_ms: int) -> None:
        """Apply changed settings."""
        self._options = options
        self._retention_ms = retention_ms

    def began(self) -> None:
        """Start to measure a pass."""
        self.cost = self._checked = 0

    def checked(self, log_bytes: int) -> None:
        """Record that this much of the log has been checked."""
        self._checked += log_bytes

    def rate(self, left: int, elapsed: int) -> float:
        """Return the bytes per second at which to read, if `left` bytes of the log are left, `elapsed` ms
        after the start of the pass."""
        options = self._options
        per_log_byte = self.cost / self._checked if self._checked else 1.5
        whole = min(options.scrub_interval * SPARE, self._retention_ms * OF_RETENTION)
        seconds = max((whole - elapsed) / 1000, 1.0)
        return min(max(left * per_log_byte / seconds, SLOWEST), options.scrub_max_bytes_per_second)

    def pause(self, cost: int, busy: float, left: int, elapsed: int) -> int:
        """Return the ms from the start of a job that read `cost` bytes and computed for `busy` seconds to the next."""
        self.cost += cost
        by_rate = cost / self.rate(left, elapsed)
        by_cpu = busy * 100 / self._options.scrub_max_cpu_percent
        return int(max(by_rate, by_cpu) * 1000) + 1
