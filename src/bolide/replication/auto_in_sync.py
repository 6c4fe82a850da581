"""Acknowledgements in sets with automatic in-sync replicas (docs/protocol/ha.md 2).

The broker rejects sends unless `inSyncReplicas` brokers are in sync. With `enableAutoInSyncReplicas` a send waits for
the number of brokers in sync, at most `inSyncReplicas` and at least `minInSyncReplicas`. The number is fixed when the
record is appended, and does not fall if a slave disconnects.
"""

from __future__ import annotations

from collections import deque
from typing import Final

_TICK_MS: Final = 10
_REMEMBERED: Final = 64


class AutoInSync:
    """Like `InSync`, but the number of required brokers follows the number in sync."""

    def __init__(self, *, most: int, least: int, timeout: int, max_gap: int, end: int, alive: int) -> None:
        """A record requires at least `least` and at most `most` brokers. `alive` is the known number of live brokers of
        the set. `end` is the current end of the log; records below it require no acknowledgement."""
        self._most = most
        self._least = least
        self._timeout = timeout
        self._max_gap = max_gap
        self.alive = alive
        """Number of live brokers of the set, including this one."""
        self._acks: dict[int, int] = {}
        self._claims: dict[int, int] = {}
        self._reached = [end] * (max(most, least) + 1)
        """By number of brokers: offset below which that many brokers have held every record. Never falls."""
        self._released = end
        self._marks: deque[tuple[int, int, int]] = deque()
        """Ends of the log, with the deadline of their dispatch and the number of brokers that must hold them."""
        self._needs: deque[tuple[int, int]] = deque([(end, self.needed(end))], _REMEMBERED)
        """Start offsets and the number of brokers that records from that offset require, oldest first."""

    @property
    def waits(self) -> bool:
        """Whether a send may wait for slaves."""
        return max(self._most, self._least) > 1

    @property
    def acknowledged(self) -> int:
        """Offset below which every record is on as many brokers as a record appended now requires."""
        need = self._needs[-1][1]
        return self._reached[need] if need > 1 else self._released

    def needed(self, end: int) -> int:
        """Return the number of brokers that must hold a record appended now."""
        return max(min(self._most, self.count(end)), self._least)

    def short(self, end: int) -> bool:
        """Return whether fewer brokers are in sync than a send requires, so that sends are rejected."""
        return self.needed(end) > self.count(end)

    def claimed(self, key: int, end: int) -> None:
        """Record that the slave on connection `key` has a log up to `end`, which may differ from this log. It counts as
        in sync, but acknowledges nothing."""
        self._claims[key] = end

    def reported(self, key: int, end: int) -> None:
        """Record that the slave on connection `key` holds this log up to `end`."""
        self._claims.pop(key, None)
        self._acks[key] = end
        held = sorted(self._acks.values(), reverse=True)
        for others, reached in enumerate(held[: len(self._reached) - 2]):
            self._reached[others + 2] = max(self._reached[others + 2], reached)

    def gone(self, key: int) -> None:
        """Called when a connection closes."""
        self._claims.pop(key, None)
        self._acks.pop(key, None)

    def holds_back(self, end: int, now: int) -> int:
        """Return the offset up to which the log may be dispatched. `end`: end of the log."""
        marks = self._marks
        last = marks[-1][0] if marks else self._released
        if end > last:
            self._mark(last, end, now)
        while marks and (self._holds(marks[0][2], marks[0][0]) or marks[0][1] <= now):
            self._released = marks.popleft()[0]
        if not marks:
            return self._released
        return max(self._released, min(self._reached[marks[0][2]], marks[0][0]))

    def _mark(self, last: int, end: int, now: int) -> None:
        need, deadline, marks = self.needed(end), now + self._timeout, self._marks
        if need != self._needs[-1][1]:
            self._needs.append((last, need))
        if marks and marks[-1][2] == need and deadline - marks[-1][1] < _TICK_MS:
            marks[-1] = (end, marks[-1][1], need)
        else:
            marks.append((end, deadline, need))

    def _holds(self, need: int, end: int) -> bool:
        return need <= 1 or self._reached[need] >= end

    def due(self) -> int:
        """Return the time at which `holds_back` rises without another report, or -1 if it does not."""
        return self._marks[0][1] if self._marks else -1

    def late(self, end: int) -> bool:
        """Return whether the record that ends at `end` is on fewer brokers than it requires."""
        need = self._needs[0][1]
        for start, later in self._needs:
            if start < end:
                need = later
        return not self._holds(need, end)

    def keeps_up(self, ack: int, end: int) -> bool:
        """Return whether a slave with this acknowledged offset is in sync. -1 means that it has not reported."""
        return ack >= 0 and end - ack < self._max_gap

    def is_in_sync(self, key: int, ack: int, end: int) -> bool:
        """Return whether a slave is in sync. In this mode, every slave that keeps up is in sync."""
        return self.keeps_up(ack, end)

    def count(self, end: int) -> int:
        """Return the number of live brokers in sync, including this one."""
        ends = (*self._acks.values(), *self._claims.values())
        return min(self.alive, 1 + sum(self.keeps_up(ack, end) for ack in ends))
