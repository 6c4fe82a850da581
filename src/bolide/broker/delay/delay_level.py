"""One delay level: how far its queue of the schedule topic is delivered, and when its next message is due."""

from __future__ import annotations

from collections import deque
from typing import final


@final
class Level:
    """One delay level: how far it is delivered, and how far that is certain."""

    def __init__(self, level: int, delay_ms: int, offset: int) -> None:
        self.level: int = level
        self.delay_ms: int = delay_ms
        self.offset: int = offset
        self.confirmed: int = offset
        self.fresh: list[tuple[int, int]] = []
        """(physical end of a record delivered in this turn, schedule offset that follows it): it may be taken back."""
        self.waiting: deque[tuple[int, int]] = deque()
        """The same, one pair a turn, of those that are written, oldest first."""
        self.more: bool = False
        """True when more is due than the last turn had room for."""
        self.loading: bool = False
        self.loaded: bool = False
        """True when the pool has just loaded what was not in memory; what was evicted since is waited for."""
        self._ahead: int = 0
        """By how much the clock was ahead that stored the messages below `_ahead_until` whose time is after
        `_ahead_from`."""
        self._ahead_from: int = 0
        self._ahead_until: int = 0

    def due_at(self, time: int, offset: int, end: int, now: int) -> int:
        """When the first message in line is due, whose time this is; `end` is that of the queue.

        A time further off than the delay is of another clock: of a master that was lost, or of this machine before its
        clock was set back and the broker restarted. Such a message waits for its delay from now on, and those after it
        as much longer as they came later.
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
        """A turn is over: what it delivered is in the log, unless its write did not happen."""
        if self.fresh and self.fresh[len(self.fresh) - 1][0] <= written_offset:
            self.waiting.append(self.fresh[len(self.fresh) - 1])
            self.fresh = []

    def taken_back(self, written_offset: int) -> bool:
        """Go back to the first delivery that is not in the log; False when all are."""
        gone = False
        while self.fresh and self.fresh[len(self.fresh) - 1][0] > written_offset:
            self.offset = self.fresh.pop()[1] - 1
            gone = True
        return gone

    def advance(self, safe_offset: int) -> None:
        """Move what may be persisted up to this offset of the log."""
        while self.waiting and self.waiting[0][0] <= safe_offset:
            self.confirmed = self.waiting.popleft()[1]
        if not self.waiting:
            for end, following in self.fresh:
                if end > safe_offset:
                    return
                self.confirmed = following
            self.confirmed = self.offset

    def shrunk(self, end: int) -> None:
        """The queue is shorter than the progress: the topic was deleted."""
        self.offset = self.confirmed = end
        self.fresh = []
        self.waiting.clear()
