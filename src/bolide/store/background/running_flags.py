"""Reasons why the store may not be read or written now: RocketMQ's RunningFlags, one bit per reason.

Any bit except NOT_READABLE makes sends fail with 14; NOT_READABLE makes pulls fail with 1. The condition that clears a
bit is next to it.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

NOT_READABLE: Final = 1
"""Never set."""
NOT_WRITABLE: Final = 2
"""A write or sync of the commit log failed. Cleared by a restart: pages after a failed sync cannot be trusted."""
LOGIC_QUEUE_ERROR: Final = 4
"""A consume queue could not be written several times in a row. In Java the bit remains until a restart, and units
dispatched in the meantime are lost. Here dispatch stops, the write is retried, and a successful write clears the
bit."""
INDEX_ERROR: Final = 8
"""An index file could not be written in 3 attempts. Cleared by a successful write, like LOGIC_QUEUE_ERROR."""
DISK_FULL: Final = 16
"""Disk usage has exceeded diskSpaceWarningLevelRatio and is still above diskSpaceCleanForciblyRatio, or a write found
the disk full. While the bit is set, the disk is checked every second. After such writes the pause doubles up to 8 s."""
FENCED: Final = 32
"""In Java: the broker has no controller. Never set here: such a broker is a slave without master, and its role rejects
sends and pulls (`broker/core/role.py`)."""

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
        """Set a reason."""
        self.bits |= bit

    def clear(self, bit: i64) -> None:
        """Clear a reason."""
        self.bits &= ~bit

    def writable(self) -> bool:
        """Return whether sends may be served."""
        return self.bits & ~NOT_READABLE == 0

    def readable(self) -> bool:
        """Return whether pulls may be served."""
        return self.bits & NOT_READABLE == 0

    def dispatch_allowed(self) -> bool:
        """Return False if queues and index are no longer written, because the log cannot be trusted."""
        return self.bits & NOT_WRITABLE == 0

    def describe(self) -> str:
        """Return the reasons as text, or ""."""
        return ", ".join(text for bit, text in _NAMES if self.bits & bit)
