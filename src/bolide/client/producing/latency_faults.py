"""Brokers to avoid for some time because they are slow or failing (RocketMQ's MQFaultStrategy, with the tables of 5.x).

Times are seconds of the event loop's clock.
"""

from __future__ import annotations

from typing import Final

PENALTIES: Final = ((15.0, 30.0), (5.0, 10.0), (3.0, 6.0), (1.8, 5.0), (0.55, 2.0))
"""Minimum latency of a send, and the time to avoid its broker, the longest first."""
FAILED_COUNTS_AS: Final = 10.0
"""Latency that is assumed for a failed send."""


def penalty(latency: float) -> float:
    """Return the seconds to avoid a broker with this latency."""
    return next((seconds for least, seconds in PENALTIES if latency >= least), 0.0)


class LatencyFaults:
    """Brokers to avoid by name, with the end of that time."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def note(self, broker_name: str, latency: float, failed: bool, now: float) -> None:
        """Record a send to a broker; only the last one is used."""
        avoided = penalty(FAILED_COUNTS_AS if failed else latency)
        if avoided:
            self._until[broker_name] = now + avoided
        else:
            self._until.pop(broker_name, None)

    def unavailable(self, now: float) -> set[str]:
        """Return the names of the brokers to avoid now."""
        return {name for name, until in self._until.items() if until > now}
