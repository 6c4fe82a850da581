"""Offset below which a replica never truncates its log, because all members of its set hold those bytes.

Every master elected among the members has them. The replica receives the offset from its masters. The offset may lag
behind the true one, but it never exceeds it.
"""

from __future__ import annotations


class HeldBySet:
    """The physical offset of one replica, from its start until it stops."""

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def told(self, offset: int) -> None:
        """Record that all members, including this replica, hold the log below `offset`."""
        self.offset = max(self.offset, offset)

    def cut(self, end: int) -> None:
        """Lower the offset to `end`, the new end of the truncated log."""
        self.offset = min(self.offset, end)
