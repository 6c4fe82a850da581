"""Statistics of a consumer for the last minute and hour, per topic (RocketMQ's ConsumerStatsManager).

A broker requests them for `mqadmin consumerStatus` and the dashboard (GET_CONSUMER_RUNNING_INFO). Six slots of ten
seconds and six of ten minutes store the counts, so no timer is needed. A pull or a listener call costs a few additions;
single messages add no cost. Times are seconds of a monotonic clock.
"""

from __future__ import annotations

from typing import Any, Final

SLOTS: Final = 6
MINUTE: Final = 60.0
HOUR: Final = 3600.0


class Window:
    """Number of events of the last `seconds`, and the sum of their values."""

    __slots__ = ("_counts", "_slots", "_sums", "_width", "began", "seconds")

    def __init__(self, seconds: float, now: float) -> None:
        self.seconds = seconds
        self.began = now
        self._width = seconds / SLOTS
        self._slots = [-1] * SLOTS
        self._counts = [0] * SLOTS
        self._sums = [0.0] * SLOTS

    def add(self, now: float, value: float, events: int = 1) -> None:
        """Count `events` events. `value` is the sum of their values."""
        slot = int(now / self._width)
        place = slot % SLOTS
        if self._slots[place] != slot:
            self._slots[place] = slot
            self._counts[place] = 0
            self._sums[place] = 0.0
        self._counts[place] += events
        self._sums[place] += value

    def total(self, now: float) -> float:
        """Return the sum of the values."""
        oldest = int(now / self._width) - SLOTS
        return sum(value for slot, value in zip(self._slots, self._sums, strict=True) if slot > oldest)

    def rate(self, now: float) -> float:
        """Return the sum of the values per second, over the part of the window that has passed since the start."""
        return self.total(now) / max(1.0, min(self.seconds, now - self.began))

    def average(self, now: float) -> float:
        """Return the mean value of an event, or 0 without events."""
        oldest = int(now / self._width) - SLOTS
        count = sum(count for slot, count in zip(self._slots, self._counts, strict=True) if slot > oldest)
        return self.total(now) / count if count else 0.0


class TopicRates:
    """Statistics of the messages of one topic."""

    __slots__ = ("consume_ms", "consume_ms_hour", "consumed", "failed", "failed_hour", "pull_ms", "pulled")

    def __init__(self, now: float) -> None:
        self.pull_ms = Window(MINUTE, now)
        self.pulled = Window(MINUTE, now)
        self.consume_ms = Window(MINUTE, now)
        self.consume_ms_hour = Window(HOUR, now)
        self.consumed = Window(MINUTE, now)
        self.failed = Window(MINUTE, now)
        self.failed_hour = Window(HOUR, now)


class ConsumerStats:
    """The statistics of one consumer."""

    def __init__(self) -> None:
        self.listened = 0.0
        """End time of the last listener call, or 0."""
        self._topics: dict[str, TopicRates] = {}

    def _of(self, topic: str, now: float) -> TopicRates:
        stats = self._topics.get(topic)
        if stats is None:
            stats = self._topics[topic] = TopicRates(now)
        return stats

    def pulled(self, topic: str, messages: int, began: float, now: float) -> None:
        """Count a pull that was sent at `began` and returned `messages` messages at `now`."""
        stats = self._of(topic, now)
        stats.pull_ms.add(now, (now - began) * 1000)
        stats.pulled.add(now, messages)

    def consumed(self, topic: str, messages: int, failed: int, began: float, now: float) -> None:
        """Count a listener call that started at `began` with `messages` messages; `failed` messages failed."""
        self.listened = now
        stats = self._of(topic, now)
        cost = (now - began) * 1000
        stats.consume_ms.add(now, cost)
        stats.consume_ms_hour.add(now, cost)
        if messages > failed:
            stats.consumed.add(now, messages - failed)
        if failed:
            stats.failed.add(now, failed)
            stats.failed_hour.add(now, failed)

    def consumed_singly(self, topic: str, messages: int, began: float, now: float) -> None:
        """Count `messages` successful listener calls, which started at `began` and each had one message."""
        self.listened = now
        stats = self._of(topic, now)
        cost = (now - began) * 1000
        stats.consume_ms.add(now, cost, messages)
        stats.consume_ms_hour.add(now, cost, messages)
        stats.consumed.add(now, messages, messages)

    def forget(self, topic: str) -> None:
        """Remove a topic that is no longer subscribed."""
        self._topics.pop(topic, None)

    def status(self, topic: str, now: float) -> dict[str, Any]:
        """Return RocketMQ's ConsumeStatus: times in ms, rates per second over a minute, failures over an hour."""
        stats = self._of(topic, now)
        # An idle topic reports the average of its last hour, as in Java.
        consume = stats.consume_ms if stats.consume_ms.total(now) else stats.consume_ms_hour
        return {
            "consumeFailedMsgs": int(stats.failed_hour.total(now)),
            "consumeFailedTPS": stats.failed.rate(now),
            "consumeOKTPS": stats.consumed.rate(now),
            "consumeRT": consume.average(now),
            "pullRT": stats.pull_ms.average(now),
            "pullTPS": stats.pulled.rate(now),
        }
