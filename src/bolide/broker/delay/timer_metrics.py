"""Number of timer messages by topic: RocketMQ's TimerMetrics, stored in `config/timermetrics`.

Informational, for operators and slaves. No decision depends on it.
"""

from __future__ import annotations

from typing import Any, Final

from bolide.broker.core.data_version import DataVersion
from bolide.errors import PeerError
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.json import parse_long
from bolide.store.disk.files import Files

UNREADABLE: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError, PeerError)
"""Exceptions that invalid file content may raise."""


class TimerMetrics:
    """Counts by topic, with the time (ms) of their last change."""

    def __init__(self, start: int) -> None:
        self.enqueued = 0
        """Messages that entered the wheel since the start."""
        self.dequeued = 0
        """Messages that left the wheel since the start, rolls included."""
        self._asked = (start, 0, 0)
        self._counts: dict[str, list[int]] = {}
        self._version = DataVersion(start, 0, 0)
        self._written = -1

    def load(self, files: Files, root: str) -> None:
        """Load the stored counts. Unreadable files are ignored."""
        for path in (f"{root}/config/timermetrics", f"{root}/config/timermetrics.bak"):
            data = files.read_file(path)
            if not data:
                continue
            try:
                stored: Any = parse_long(data)
                counts = _counts_of(stored)
                self._version.assign(stored.get("dataVersion") or {})
            except UNREADABLE:  # the older copy may be valid
                continue
            self._counts = counts
            self._written = self._version.counter
            return

    def follow(self, answer: dict[str, Any]) -> None:
        """Adopt a master's counts (61). Raises one of `UNREADABLE` without changes."""
        counts = _counts_of(answer)
        self._version.assign(answer.get("dataVersion") or {})
        self._counts = counts

    @property
    def changed(self) -> bool:
        """Whether the file is outdated."""
        return self._version.counter != self._written

    def add(self, topic: str | None, count: int, now: int) -> None:
        """Add `count` messages to a topic, if the message names a topic."""
        if topic is None:
            return
        metric = self._counts.get(topic)
        if metric is None:
            if count < 0:
                return  # the topic was deleted while its messages were waiting
            metric = self._counts[topic] = [0, 0]
        metric[0] += count
        metric[1] = now
        self._version.next(now)

    def forget(self, topic: str) -> None:
        """Remove a deleted topic. Its messages in the wheel are not counted when they leave."""
        if self._counts.pop(topic, None) is not None:
            self._version.next(self._version.timestamp)

    def rates(self, now: int) -> tuple[float, float]:
        """Return the messages per second that entered and left the wheel since the start of the current period. The
        first call after a minute ends the period."""
        since, enqueued, dequeued = self._asked
        elapsed = max(now - since, 1)
        if elapsed >= 60_000:
            self._asked = (now, self.enqueued, self.dequeued)
        return (self.enqueued - enqueued) * 1000 / elapsed, (self.dequeued - dequeued) * 1000 / elapsed

    def encode(self) -> bytes:
        """Encode the file, which is also the body of GET_TIMER_METRICS (61)."""
        table = {topic: {"count": count, "timeStamp": time} for topic, (count, time) in self._counts.items()}
        return encode_body({"dataVersion": self._version.to_json(), "timingCount": table})

    def take(self) -> bytes | None:
        """Return the new content of the file and mark the file as current, or return None if it is not outdated."""
        if not self.changed:
            return None
        self._written = self._version.counter
        return self.encode()


def _counts_of(stored: dict[str, Any]) -> dict[str, list[int]]:
    table = stored.get("timingCount") or {}
    return {str(topic): [int(metric["count"]), int(metric["timeStamp"])] for topic, metric in table.items()}
