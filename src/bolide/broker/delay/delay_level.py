"""State of one delay level: the progress of its queue in the schedule topic, and the due time of its next message."""

from __future__ import annotations

from collections import deque
from typing import final


@final
class Level:
    """One delay level, with its delivered and its safe progress."""

    def __init__(self, level: int, delay_ms: int, offset: int) -> None:
        self.level: int = level
        self.delay_ms: int = delay_ms
        self.offset: int = offset
        self.confirmed: int = offset
        self.fresh: list[tuple[int, int]] = []
        """(physical end of a record delivered in this turn, next schedule offset). May be rolled back."""
        self.waiting: deque[tuple[int, int]] = deque()
        """The last such pair of each written turn, oldest first."""
        self.more: bool = False
        """Whether more messages are due than the last turn had room for."""
        self.loading: bool = False
        self.loaded: bool = False
        """Whether the pool has just loaded missing data. Reads then wait for data that was evicted again."""
        self._ahead: int = 0
        """Lead of the clock that stored messages below `_ahead_until` with a time after `_ahead_from`."""
        self._ahead_from: int = 0
        self._ahead_until: int = 0

    def due_at(self, time: int, offset: int, end: int, now: int) -> int:
        """Return when the next message with this time is due. `end`: end of its queue.

        A time further away than the delay comes from another clock: of a lost master, or of this host before its clock
        was set back and the broker restarted. Such a message waits for its delay from now on. Later ones wait longer by
        the difference of their times.
        """
        if offset >= self._ahead_until:
            self._ahead_from = self._ahead_until = 0
        own = time - self._ahead if time > self._ahead_from and offset < self._ahead_until else time
        if own <= now + self.delay_ms:
            return own
        self._ahead_from = now + self.delay_ms
        self._ahead_until = end
        self._ahead = time - self._ahead_from
        return self._ahead_from

    def written(self, written_offset: int) -> None:
        """Called after the write of a turn: move its deliveries to `waiting` if the log was written up to them."""
        if self.fresh and self.fresh[len(self.fresh) - 1][0] <= written_offset:
            self.waiting.append(self.fresh[len(self.fresh) - 1])
            self.fresh = []

    def taken_back(self, written_offset: int) -> bool:
        """Return to the first delivery that is not in the log. Return False if all are."""
        gone = False
        while self.fresh and self.fresh[len(self.fresh) - 1][0] > written_offset:
            self.offset = self.fresh.pop()[1] - 1
            gone = True
        return gone

    def advance(self, safe_offset: int) -> None:
        """Advance the safe progress up to this offset of the log."""
        while self.waiting and self.waiting[0][0] <= safe_offset:
            self.confirmed = self.waiting.popleft()[1]
        if not self.waiting:
            for end, following in self.fresh:
                if end > safe_offset:
                    return
                self.confirmed = following
            self.confirmed = self.offset

    def shrunk(self, end: int) -> None:
        """Called when the queue is shorter than the progress, because the topic was deleted."""
        self.offset = self.confirmed = end
        self.fresh = []
        self.waiting.clear()
