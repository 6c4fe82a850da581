"""Which brokers to leave alone for a while: slow ones and failing ones (RocketMQ's MQFaultStrategy, tables of 5.x).

Times are seconds of the event loop's clock.
"""

from __future__ import annotations

from typing import Final

PENALTIES: Final = ((15.0, 30.0), (5.0, 10.0), (3.0, 6.0), (1.8, 5.0), (0.55, 2.0))
"""Latency from which on a broker is avoided, and for how long, the longest first."""
FAILED_COUNTS_AS: Final = 10.0
"""Latency a failed send stands for."""


def penalty(latency: float) -> float:
    """Seconds to avoid a broker that took so long."""
    return next((seconds for least, seconds in PENALTIES if latency >= least), 0.0)


class LatencyFaults:
    """Brokers by name, with the time until which they are avoided."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def note(self, broker_name: str, latency: float, failed: bool, now: float) -> None:
        """A send to a broker ended after `latency`; the last one alone counts."""
        avoided = penalty(FAILED_COUNTS_AS if failed else latency)
        if avoided:
            self._until[broker_name] = now + avoided
        else:
            self._until.pop(broker_name, None)

    def unavailable(self, now: float) -> set[str]:
        """Names of the brokers to avoid now."""
        return {name for name, until in self._until.items() if until > now}
