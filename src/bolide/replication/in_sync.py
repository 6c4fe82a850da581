"""Which slaves keep up, and how far the log is kept by as many machines as a send waits for (docs/protocol/ha.md 2)."""

from __future__ import annotations

from collections import deque
from typing import Final

NO_CAP: Final = -1
_TICK_MS: Final = 10


class InSync:
    """The acknowledgements of a master's slaves.

    `needed` machines, this one among them, must hold a record before its send is answered and it is dispatched. After
    `timeout` ms it is dispatched all the same, as in RocketMQ, and `late` says that its send is answered with 12.
    """

    def __init__(self, *, needed: int, timeout: int, max_gap: int, end: int) -> None:
        """`end` is where the log ends now: nobody waits for what is there."""
        self._needed = needed
        self._timeout = timeout
        self._max_gap = max_gap
        self._acks: dict[int, int] = {}
        self.acknowledged = end
        """Below this enough machines hold every record; it never falls, also when they are gone."""
        self._released = end
        self._marks: deque[tuple[int, int]] = deque()
        """Ends of the log and when they are dispatched at the latest, both ascending."""

    @property
    def waits(self) -> bool:
        """True when a send waits for slaves."""
        return self._needed > 1

    def reported(self, key: int, end: int) -> None:
        """The slave on connection `key` holds the log up to `end`."""
        self._acks[key] = end
        if not self.waits or len(self._acks) < self._needed - 1:
            return
        reached = sorted(self._acks.values(), reverse=True)[self._needed - 2]
        self.acknowledged = max(self.acknowledged, reached)

    def gone(self, key: int) -> None:
        """That connection ended."""
        self._acks.pop(key, None)

    def holds_back(self, end: int, now: int) -> int:
        """Up to where the log, which ends at `end`, may be dispatched; NO_CAP when nothing is waited for."""
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
        """When `holds_back` moves by time alone; -1 for never."""
        return self._marks[0][1] if self._marks else -1

    def late(self, end: int) -> bool:
        """True when a record that ends here is not held by enough machines."""
        return self.waits and end > self.acknowledged

    def short(self, end: int) -> bool:
        """Sends are taken, however few machines are in sync."""
        return False

    def keeps_up(self, ack: int, end: int) -> bool:
        """True when a slave that holds the log up to `ack` counts as in sync; one that never reported does not."""
        return ack >= 0 and end - ack < self._max_gap

    def is_in_sync(self, key: int, ack: int, end: int) -> bool:
        """Who keeps up is in sync."""
        return self.keeps_up(ack, end)

    def count(self, end: int) -> int:
        """How many machines are in sync, this one among them."""
        return 1 + sum(self.keeps_up(ack, end) for ack in self._acks.values())
