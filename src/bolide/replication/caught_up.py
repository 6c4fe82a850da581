"""Since when a slave lacks a part of its master's log, in time."""

from __future__ import annotations

from typing import Final

NEVER: Final = -1
_NOWHERE: Final = 1 << 63
"""Beyond the end of every log."""


class CaughtUp:
    """Of one connection of a slave; offsets are ends of logs, `now` is ms.

    Under a steady load a slave holds all of the log at no moment that the master sees. So the master notes where its
    log ends and when; once the slave has reported that end, it had everything at that time.
    """

    def __init__(self) -> None:
        self._at = NEVER
        self._end = _NOWHERE
        """Where the log ended at the last look."""
        self._noted = _NOWHERE
        """An end of the log that the slave is to report, and when the log ended there."""
        self._noted_at = NEVER

    def looked(self, acked: int, end: int, now: int) -> None:
        """The log ends at `end` now, and the slave reported `acked` last."""
        if acked >= self._end:
            # It had everything until the log grew just now.
            self._at = now
        self._end = end
        if self._noted_at < 0 or acked >= self._noted:
            self._noted, self._noted_at = end, now

    def reported(self, acked: int) -> None:
        """The slave holds the log up to `acked`."""
        if acked >= self._noted:
            self._at = max(self._at, self._noted_at)

    def lag_ms(self, acked: int, end: int, now: int) -> int:
        """For how long the slave has lacked something, 0 if it lacks nothing; NEVER if it has not had all yet."""
        if acked >= end:
            return 0
        return max(now - self._at, 0) if self._at >= 0 else NEVER
