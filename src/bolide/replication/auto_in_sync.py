"""How many machines a send waits for where name servers say who of the set lives (docs/protocol/ha.md 2).

`inSyncReplicas` machines must be in sync, else sends are refused. With `enableAutoInSyncReplicas` a send waits for as
many as are in sync, at most `inSyncReplicas` and at least `minInSyncReplicas`. What a record waits for is decided when
it is appended: it does not become less when a slave is gone.
"""

from __future__ import annotations

from collections import deque
from typing import Final

_TICK_MS: Final = 10
_REMEMBERED: Final = 64


class AutoInSync:
    """The acknowledgements of a master's slaves, as `InSync`, whose needs change."""

    def __init__(self, *, most: int, least: int, timeout: int, max_gap: int, end: int, alive: int) -> None:
        """Between `least` and `most` machines are waited for; equal where the number is fixed. `alive` machines of the
        set live, as far as is known; `end` is where the log ends now: nobody waits for what is there."""
        self._most = most
        self._least = least
        self._timeout = timeout
        self._max_gap = max_gap
        self.alive = alive
        """How many machines of the set live, this one among them."""
        self._acks: dict[int, int] = {}
        self._reached = [end] * (max(most, least) + 1)
        """By number of machines: below this so many held every record once; it never falls."""
        self._released = end
        self._marks: deque[tuple[int, int, int]] = deque()
        """Ends of the log, when they are dispatched at the latest, and how many machines must hold them."""
        self._needs: deque[tuple[int, int]] = deque([(end, self.needed(end))], _REMEMBERED)
        """From which offset on records need how many machines, oldest first."""

    @property
    def waits(self) -> bool:
        """True when a send may wait for slaves."""
        return max(self._most, self._least) > 1

    @property
    def acknowledged(self) -> int:
        """Below this enough machines hold every record, as many as are needed now."""
        need = self._needs[-1][1]
        return self._reached[need] if need > 1 else self._released

    def needed(self, end: int) -> int:
        """How many machines must hold a record that is appended now."""
        return max(min(self._most, self.count(end)), self._least)

    def short(self, end: int) -> bool:
        """True when fewer machines are in sync than a send needs: it is refused."""
        return self.needed(end) > self.count(end)

    def reported(self, key: int, end: int) -> None:
        """The slave on connection `key` holds the log up to `end`."""
        self._acks[key] = end
        held = sorted(self._acks.values(), reverse=True)
        for others, reached in enumerate(held[: len(self._reached) - 2]):
            self._reached[others + 2] = max(self._reached[others + 2], reached)

    def gone(self, key: int) -> None:
        """That connection ended."""
        self._acks.pop(key, None)

    def holds_back(self, end: int, now: int) -> int:
        """Up to where the log, which ends at `end`, may be dispatched."""
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
        """When `holds_back` moves by time alone; -1 for never."""
        return self._marks[0][1] if self._marks else -1

    def late(self, end: int) -> bool:
        """True when a record that ends here is not held by as many machines as it needs."""
        need = self._needs[0][1]
        for start, later in self._needs:
            if start < end:
                need = later
        return not self._holds(need, end)

    def keeps_up(self, ack: int, end: int) -> bool:
        """True when a slave that holds the log up to `ack` counts as in sync; one that never reported does not."""
        return ack >= 0 and end - ack < self._max_gap

    def is_in_sync(self, key: int, ack: int, end: int) -> bool:
        """Who keeps up is in sync."""
        return self.keeps_up(ack, end)

    def count(self, end: int) -> int:
        """How many machines are in sync, this one among them, of those that live."""
        return min(self.alive, 1 + sum(self.keeps_up(ack, end) for ack in self._acks.values()))
