"""Progress of the master's timer on a slave (60), stored in config/followedTimer.json.

A slave has the messages of the timer topic, but no wheel. When it becomes master, it adds every message that the old
master had not delivered to a new wheel (`timers.TimerService`). Java's slave fills its wheel continuously.
"""

from __future__ import annotations

from typing import Any

from bolide.broker.core.effects import Effects
from bolide.broker.core.service import Table
from bolide.layout.timer_checkpoint import TimerCheckpoint
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.json import parse_long


class FollowedTimer(Table):
    """Progress of the master's timer. Empty on a broker that has always been a master."""

    def __init__(self, effects: Effects) -> None:
        super().__init__("followedTimer")
        self._effects = effects
        self.read_time = -1
        """Slots before this time (ms) are delivered; -1: unknown."""
        self.queue_offset = 0
        """Messages of the timer queue before this one were in the master's wheel, or delivered."""
        self._written = False

    @property
    def known(self) -> bool:
        """Whether a timer that starts here continues at the master's progress."""
        return self.read_time >= 0

    @property
    def checkpoint(self) -> TimerCheckpoint:
        """Checkpoint for a returning master. It has no version, so the master keeps its own version."""
        return TimerCheckpoint(max(self.read_time, 0), queue_offset=self.queue_offset)

    def follow(self, read_time: int, queue_offset: int) -> None:
        """Record progress that the log of this broker covers."""
        if queue_offset > 0 and (read_time, queue_offset) != (self.read_time, self.queue_offset):
            self.read_time, self.queue_offset = read_time, queue_offset
            self._effects.persist(self.persist_name)

    def cut(self, end: int) -> bool:
        """Clamp the progress to the end of the timer queue. Return whether it changed. The caller must then write the
        file before any record is stored, because a later start would accept the old progress for a longer queue."""
        lost = self.queue_offset > end
        self.queue_offset = min(self.queue_offset, end)
        return lost

    def clear(self) -> None:
        """Clear the progress, because this broker's timer is running and its files are on disk."""
        self.read_time, self.queue_offset = -1, 0
        self._effects.persist(self.persist_name)

    def encode(self) -> bytes:
        """Encode the file; b"" on a broker that never was a slave."""
        if not self.known and not self._written:
            return b""
        self._written = True
        if not self.known:
            return b"{}"
        return encode_body({"queueOffset": self.queue_offset, "readTime": self.read_time})

    def load(self, data: bytes) -> None:
        stored: Any = parse_long(data)
        self.read_time, self.queue_offset = int(stored.get("readTime", -1)), int(stored.get("queueOffset", 0))
        self._written = True
