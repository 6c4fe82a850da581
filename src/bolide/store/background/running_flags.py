"""Why the store may not be read or written just now: RocketMQ's RunningFlags, one bit a reason.

Any bit but NOT_READABLE makes SEND answer 14; NOT_READABLE makes PULL answer 1. What clears a bit is next to it.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

NOT_READABLE: Final = 1
"""Nobody sets it."""
NOT_WRITABLE: Final = 2
"""A write or sync of the commit log failed. Cleared by a restart: pages after a failed sync cannot be trusted."""
LOGIC_QUEUE_ERROR: Final = 4
"""A consume queue could not be written several times in a row. Java's stays until a restart, and the units of what is
dispatched meanwhile are lost; here nothing is dispatched, the write is tried again, and a good one clears the bit."""
INDEX_ERROR: Final = 8
"""An index file could not be written in 3 tries. Cleared by a good try, as LOGIC_QUEUE_ERROR."""
DISK_FULL: Final = 16
"""Disk use is over diskSpaceWarningLevelRatio, until it is at most diskSpaceCleanForciblyRatio; or a write found the
disk full. While it is set the disk is checked every second; after such a write the pauses double up to 8 s."""
FENCED: Final = 32
"""Java's, while a broker has no word of its controller. Nobody sets it here: such a broker is a slave of nobody, and
its role refuses sends and pulls (`broker/core/role.py`)."""

_NAMES: Final = (
    (NOT_READABLE, "not readable"),
    (NOT_WRITABLE, "a write of the commit log failed"),
    (LOGIC_QUEUE_ERROR, "consume queues cannot be written"),
    (INDEX_ERROR, "index files cannot be written"),
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
        """False when queues and index are not written any more, because the log cannot be trusted."""
        return self.bits & NOT_WRITABLE == 0

    def describe(self) -> str:
        """The reasons as text, "" when there is none."""
        return ", ".join(text for bit, text in _NAMES if self.bits & bit)
