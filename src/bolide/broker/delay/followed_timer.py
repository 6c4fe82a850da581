"""How far its master's timer has come, as a slave was told (60): kept in config/followedTimer.json.

A slave has the messages of the timer topic and no wheel. When it becomes master, every message that the old master had
not delivered by then enters a wheel of its own (`timers.TimerService`). Java's slave fills its wheel as it goes.
"""

from __future__ import annotations

from typing import Any

from bolide.broker.core.effects import Effects
from bolide.broker.core.service import Table
from bolide.layout.timer_checkpoint import TimerCheckpoint
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.json import parse_long


class FollowedTimer(Table):
    """Nothing on a broker that has always been a master."""

    def __init__(self, effects: Effects) -> None:
        super().__init__("followedTimer")
        self._effects = effects
        self.read_time = -1
        """Slots before this time (ms) are delivered; -1 = nothing is known."""
        self.queue_offset = 0
        """Messages of the timer queue before this one were in the master's wheel, or delivered."""
        self._written = False

    @property
    def known(self) -> bool:
        """True when a timer that starts here continues where the master's was."""
        return self.read_time >= 0

    @property
    def checkpoint(self) -> TimerCheckpoint:
        """What a master that returns is told: without a version, so that it believes its own."""
        return TimerCheckpoint(max(self.read_time, 0), queue_offset=self.queue_offset)

    def follow(self, read_time: int, queue_offset: int) -> None:
        """Note what the log of this broker covers."""
        if queue_offset > 0 and (read_time, queue_offset) != (self.read_time, self.queue_offset):
            self.read_time, self.queue_offset = read_time, queue_offset
            self._effects.persist(self.persist_name)

    def clear(self) -> None:
        """A timer of this broker has taken over, and its files are on disk."""
        self.read_time, self.queue_offset = -1, 0
        self._effects.persist(self.persist_name)

    def encode(self) -> bytes:
        """The file; none on a broker that never followed."""
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
