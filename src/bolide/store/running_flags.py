"""Why the store may not be read or written just now: RocketMQ's RunningFlags, one bit a reason.

Any bit but NOT_READABLE makes SEND answer 14; NOT_READABLE makes PULL answer 1. What clears a bit stands beside it.
Compiled by mypyc.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

NOT_READABLE: Final = 1
"""Nobody sets it."""
NOT_WRITABLE: Final = 2
"""A write or sync of the commit log failed. Cleared by a restart: pages after a failed sync cannot be trusted."""
LOGIC_QUEUE_ERROR: Final = 4
"""A consume queue could not be written 30 times in a row. Cleared by a restart."""
INDEX_ERROR: Final = 8
"""An index file could not be made in 3 tries. Cleared by a restart."""
DISK_FULL: Final = 16
"""Disk use over diskSpaceWarningLevelRatio, or a write that met a full disk. Cleared by the cleaner (every 10 s) once
use is at most diskSpaceCleanForciblyRatio."""
FENCED: Final = 32
"""Controller mode, which Bolide does not have."""

_NAMES: Final = (
    (NOT_READABLE, "not readable"),
    (NOT_WRITABLE, "a write of the commit log failed"),
    (LOGIC_QUEUE_ERROR, "consume queues cannot be written"),
    (INDEX_ERROR, "index files cannot be made"),
    (DISK_FULL, "the disk is full"),
    (FENCED, "fenced"),
)


@final
class RunningFlags:
    """The bits of one store."""

    def __init__(self) -> None:
        self.bits: i64 = 0

    def set(self, bit: i64) -> None:
        """A reason has come up."""
        self.bits |= bit

    def clear(self, bit: i64) -> None:
        """A reason is gone."""
        self.bits &= ~bit

    def writable(self) -> bool:
        """True when SEND may be served."""
        return self.bits & ~NOT_READABLE == 0

    def readable(self) -> bool:
        """True when PULL may be served."""
        return self.bits & NOT_READABLE == 0

    def dispatch_allowed(self) -> bool:
        """False when consume queues are not written any more: units are then lost until the next recovery."""
        return self.bits & (NOT_WRITABLE | LOGIC_QUEUE_ERROR | INDEX_ERROR) == 0

    def describe(self) -> str:
        """The reasons as text, "" when there is none."""
        return ", ".join(text for bit, text in _NAMES if self.bits & bit)
