"""Limits how often a client requests the route of a topic while its brokers are unreachable or reject requests."""

from __future__ import annotations

from typing import Final

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
QUIET: Final = 10.0
"""Idle time after which the pauses start with `FIRST_PAUSE` again. All times are in seconds."""


class RouteLooks:
    """Pauses of one client. A new master is registered quickly, so the first requests follow each other closely. If a
    broker is unavailable for longer, the requests slow down to one per second."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float]] = {}
        """Time of the last request and the pause after it, by topic."""

    def may(self, topic: str, now: float) -> bool:
        """Return whether the route may be requested."""
        last = self._last.get(topic)
        return last is None or now - last[0] >= last[1]

    def looked(self, topic: str, now: float) -> None:
        """Called when the route is requested."""
        at, pause = self._last.get(topic, (now - QUIET, 0.0))
        self._last[topic] = now, FIRST_PAUSE if now - at >= QUIET else min(2 * pause, LONGEST_PAUSE)
