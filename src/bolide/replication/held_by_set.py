"""The offset below which a replica never truncates its log, because all members of its set are known to hold it.

Any master elected among the members has those bytes. The replica learns the offset from its masters, so it may lag
behind the true one but never exceeds it.
"""

from __future__ import annotations


class HeldBySet:
    """For one replica, from start to stop. `offset` is a physical offset."""

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def told(self, offset: int) -> None:
        """All members, including this replica, hold the log below `offset`."""
        self.offset = max(self.offset, offset)

    def cut(self, end: int) -> None:
        """The log was truncated and ends at `end`."""
        self.offset = min(self.offset, end)
