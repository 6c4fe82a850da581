"""Measures the replication lag of a slave in ms."""

from __future__ import annotations

from typing import Final

NEVER: Final = -1
_NOWHERE: Final = 1 << 63
"""An offset above the end of any log."""


class CaughtUp:
    """Tracks the lag of one slave connection. Offsets are log end offsets; `now` is ms.

    Under a steady load, no report of a slave ever reaches the current end of the log. So this class stores an end of
    the log with its time. A slave that reports that end had caught up at the stored time.
    """

    def __init__(self) -> None:
        self._at = NEVER
        self._end = _NOWHERE
        """End of the log at the last call of `looked`."""
        self._noted = _NOWHERE
        """An end of the log that the slave has not reported yet. `_noted_at` is the time when the log ended there."""
        self._noted_at = NEVER

    def looked(self, acked: int, end: int, now: int) -> None:
        """Called with the current end of the log and the last report of the slave."""
        if acked >= self._end:
            # The slave was caught up until the log grew just now.
            self._at = now
        self._end = end
        if self._noted_at < 0 or acked >= self._noted:
            self._noted, self._noted_at = end, now

    def reported(self, acked: int) -> None:
        """Record that the slave holds the log up to `acked`."""
        if acked >= self._noted:
            self._at = max(self._at, self._noted_at)

    def lag_ms(self, acked: int, end: int, now: int) -> int:
        """Return the replication lag in ms: 0 if caught up, NEVER if the slave has not caught up yet."""
        if acked >= end:
            return 0
        return max(now - self._at, 0) if self._at >= 0 else NEVER
