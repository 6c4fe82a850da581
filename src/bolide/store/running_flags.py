"""Why the store may not be read or written just now: RocketMQ's RunningFlags, one bit a reason.

Any bit but NOT_READABLE makes SEND answer 14; NOT_READABLE makes PULL answer 1. What clears a bit stands beside it.
"""

from __future__ import annotations

from typing import Final

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


def is_writable(bits: int) -> bool:
    """True when SEND may be served."""
    return bits & ~NOT_READABLE == 0


def is_readable(bits: int) -> bool:
    """True when PULL may be served."""
    return bits & NOT_READABLE == 0


def dispatch_allowed(bits: int) -> bool:
    """False when consume queues are not written any more: units are then lost until the next recovery."""
    return bits & (NOT_WRITABLE | LOGIC_QUEUE_ERROR | INDEX_ERROR) == 0


def describe_flags(bits: int) -> str:
    """The reasons as text, "" when there is none."""
    return ", ".join(text for bit, text in _NAMES if bits & bit)
