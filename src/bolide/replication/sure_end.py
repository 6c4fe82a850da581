"""Up to where a slave's log is its master's, when the master may have lost the end of what it had sent.

Two logs with an epoch in common are taken for the same up to the shorter end. That is wrong for a master that lost
power with asynchronous flush and goes on to lead the same epoch: it stores other bytes where a slave has those that
were lost. Such a master says that it ends where it did at its start, or where it has sent this slave more since. The
slave cuts off the rest, and is sent what follows.
"""

from __future__ import annotations

from typing import Final

_REMEMBERED: Final = 64


class SureEnd:
    """Of a master whose log ended at `end` at its start. Replicas are known by their ids."""

    def __init__(self, end: int) -> None:
        self._end = end
        self._sent: dict[int, int] = {}

    def sent(self, replica: int, end: int) -> None:
        """This replica was sent the log up to `end`. One that is forgotten is sent the same bytes again."""
        if replica not in self._sent and len(self._sent) >= _REMEMBERED:
            del self._sent[next(iter(self._sent))]
        self._sent[replica] = max(end, self._sent.get(replica, 0))

    def told(self, replica: int, end: int) -> int:
        """Where this log, which ends at `end`, ends for a replica that connects."""
        return min(end, max(self._end, self._sent.get(replica, 0)))
