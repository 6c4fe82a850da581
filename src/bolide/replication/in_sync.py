"""Acknowledgements of slaves: which slaves are in sync, and which records are on enough brokers (docs/protocol/ha.md
2)."""

from __future__ import annotations

from collections import deque
from typing import Final

NO_CAP: Final = -1
_TICK_MS: Final = 10


class InSync:
    """Acknowledgements of a master's slaves.

    A record is acknowledged and dispatched once `needed` brokers hold it, including this one. After `timeout` ms it is
    dispatched anyway, as in RocketMQ; then `late` returns True and the response to its send is FLUSH_SLAVE_TIMEOUT.
    """

    def __init__(self, *, needed: int, timeout: int, max_gap: int, end: int) -> None:
        """`end`: current end of the log. Records below it require no acknowledgement."""
        self._needed = needed
        self._timeout = timeout
        self._max_gap = max_gap
        self._acks: dict[int, int] = {}
        self._claims: dict[int, int] = {}
        self.acknowledged = end
        """Offset below which enough brokers hold every record. Never falls, even if they disconnect."""
        self._released = end
        self._marks: deque[tuple[int, int]] = deque()
        """Ends of the log with the deadlines of their dispatch, both ascending."""

    @property
    def waits(self) -> bool:
        """Whether sends wait for slaves."""
        return self._needed > 1

    def claimed(self, key: int, end: int) -> None:
        """Record that the slave on connection `key` has a log up to `end`, which may differ from this log. It counts as
        in sync, but acknowledges nothing."""
        self._claims[key] = end

    def reported(self, key: int, end: int) -> None:
        """Record that the slave on connection `key` holds this log up to `end`."""
        self._claims.pop(key, None)
        self._acks[key] = end
        if not self.waits or len(self._acks) < self._needed - 1:
            return
        reached = sorted(self._acks.values(), reverse=True)[self._needed - 2]
        self.acknowledged = max(self.acknowledged, reached)

    def gone(self, key: int) -> None:
        """Called when a connection closes."""
        self._claims.pop(key, None)
        self._acks.pop(key, None)

    def holds_back(self, end: int, now: int) -> int:
        """Return the offset up to which the log may be dispatched, or NO_CAP if sends do not wait. `end`: end of the
        log."""
        if not self.waits:
            return NO_CAP
        marks = self._marks
        last = marks[-1][0] if marks else max(self._released, self.acknowledged)
        if end > last:
            deadline = now + self._timeout
            if marks and deadline - marks[-1][1] < _TICK_MS:
                marks[-1] = (end, marks[-1][1])
            else:
                marks.append((end, deadline))
        while marks and (marks[0][0] <= self.acknowledged or marks[0][1] <= now):
            self._released = max(self._released, marks.popleft()[0])
        return max(self.acknowledged, self._released)

    def due(self) -> int:
        """Return the time at which `holds_back` rises without another report, or -1 if it does not."""
        return self._marks[0][1] if self._marks else -1

    def late(self, end: int) -> bool:
        """Return whether the record that ends at `end` is not on enough brokers."""
        return self.waits and end > self.acknowledged

    def short(self, end: int) -> bool:
        """Always False: in this mode, sends are accepted regardless of the number of replicas in sync."""
        return False

    def keeps_up(self, ack: int, end: int) -> bool:
        """Return whether a slave with this acknowledged offset is in sync. -1 means that it has not reported."""
        return ack >= 0 and end - ack < self._max_gap

    def is_in_sync(self, key: int, ack: int, end: int) -> bool:
        """Return whether a slave is in sync. In this mode, every slave that keeps up is in sync."""
        return self.keeps_up(ack, end)

    def count(self, end: int) -> int:
        """Return the number of brokers in sync, including this one."""
        return 1 + sum(self.keeps_up(ack, end) for ack in (*self._acks.values(), *self._claims.values()))
