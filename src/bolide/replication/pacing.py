"""Heartbeats, idle timeout and rate limit of a master's session with one slave, in both HA modes."""

from __future__ import annotations

from msgspec import Struct


class Pace(Struct, frozen=True):
    """Times and sizes of a connection, in ms and bytes."""

    heartbeat: int = 5000
    """Interval of heartbeats, which contain the sender's offset. Any other frame postpones the next heartbeat."""
    silence: int = 20_000
    """Idle time after which the other side is considered lost."""
    batch: int = 32 * 1024
    """Maximum size of one transfer."""
    most_in_second: int = 0
    """Maximum bytes sent to one slave per second; 0 means no limit."""


class PacedSession:
    """The part of a master's session that does not depend on the mode. Times are ms."""

    def __init__(self, pace: Pace, *, heard_at: int, wrote_at: int) -> None:
        self._pace = pace
        self._heard_at = heard_at
        self._wrote_at = wrote_at
        self._second = -1
        self._sent_in_second = 0
        self.acked = -1
        """Last end offset that the slave reported, or -1 before its first report."""
        self.next_offset = -1
        """Offset of the next transfer, or -1 before the first report."""
        self.sent = 0
        """Bytes of the log sent so far."""
        self.last_rate = 0
        """Bytes of the log sent in the last complete second with a transfer."""

    def silent(self, now: int) -> bool:
        """Return whether the slave has been idle for too long and is considered lost."""
        return now - self._heard_at > self._pace.silence

    def due(self) -> int:
        """Return when to call `silent` or `heartbeat` next."""
        over = self._heard_at + self._pace.silence + 1
        return over if self.next_offset < 0 else min(over, self._wrote_at + self._pace.heartbeat + 1)

    def limited_until(self, now: int) -> int:
        """Return when the rate limit allows more bytes, or -1 if it allows some now."""
        if self._pace.most_in_second <= 0 or self._sent_in_second < self._pace.most_in_second:
            return -1
        return (self._second + 1) * 1000 if now // 1000 == self._second else -1

    def _allowed(self, size: int, now: int) -> int:
        """Return how many of `size` bytes the rate limit still allows in this second."""
        if self._pace.most_in_second <= 0:
            return size
        self._count_second(now)
        return min(size, self._pace.most_in_second - self._sent_in_second)

    def _count(self, size: int, now: int) -> None:
        """Record that `size` bytes, starting at `next_offset`, are sent."""
        self.next_offset += size
        self.sent += size
        self._count_second(now)
        self._sent_in_second += size

    def _count_second(self, now: int) -> None:
        second = now // 1000
        if second != self._second:
            self.last_rate = self._sent_in_second
            self._second = second
            self._sent_in_second = 0
