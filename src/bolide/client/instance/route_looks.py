"""How often name servers are asked where a topic is now, while brokers of it cannot be reached or refuse."""

from __future__ import annotations

from typing import Final

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
QUIET: Final = 10.0
"""After so many seconds without a question the pauses begin again with the first. All are in seconds."""


class RouteLooks:
    """Of one client. A master that was replaced is known within a moment, so the first questions come soon after each
    other; a broker that is busy for long leads to one a second."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float]] = {}
        """By topic: when it was asked for, and for how long it is not asked for again."""

    def may(self, topic: str, now: float) -> bool:
        """True when the topic may be asked for."""
        last = self._last.get(topic)
        return last is None or now - last[0] >= last[1]

    def looked(self, topic: str, now: float) -> None:
        """It is being asked for."""
        at, pause = self._last.get(topic, (now - QUIET, 0.0))
        self._last[topic] = now, FIRST_PAUSE if now - at >= QUIET else min(2 * pause, LONGEST_PAUSE)
