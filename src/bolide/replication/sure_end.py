"""Safe end offset that a master reports to a slave after it may have lost the end of its log.

Two logs with a common epoch are assumed to be equal up to the shorter end. That is wrong if a master with asynchronous
flush loses power and continues the same epoch: it stores other bytes at offsets at which a slave still has the lost
ones.

Such a master reports its end at startup, or the end of the bytes that it has sent to this slave since, if that is
higher. The slave truncates the rest and receives the new bytes.
"""

from __future__ import annotations

from typing import Final

_REMEMBERED: Final = 64


class SureEnd:
    """Safe end offsets of a master whose log ended at `end` at startup. Replicas are identified by id."""

    def __init__(self, end: int) -> None:
        self._end = end
        self._sent: dict[int, int] = {}

    def sent(self, replica: int, end: int) -> None:
        """Record that the log was sent to a replica up to `end`. The table is bounded. A replica dropped from it
        receives some bytes twice, with no other effect."""
        if replica not in self._sent and len(self._sent) >= _REMEMBERED:
            del self._sent[next(iter(self._sent))]
        self._sent[replica] = max(end, self._sent.get(replica, 0))

    def told(self, replica: int, end: int) -> int:
        """Return the end offset to report to a replica that connects. `end`: end of the log."""
        return min(end, max(self._end, self._sent.get(replica, 0)))
