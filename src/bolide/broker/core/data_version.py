"""Version of a configuration table: RocketMQ's DataVersion. Two tables are equal when all three numbers are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final


@final
class DataVersion:
    """`timestamp` of the last change (ms), `counter` of changes, `state_version` (5.x, replicas)."""

    def __init__(self, timestamp: int = 0, counter: int = 0, state_version: int = 0) -> None:
        self.timestamp: int = timestamp
        self.counter: int = counter
        self.state_version: int = state_version

    def next(self, now: int) -> None:
        """Record a change at `now` (ms since the epoch)."""
        self.timestamp = now
        self.counter += 1

    def to_json(self) -> dict[str, int]:
        """Return the fields under Java's names."""
        return {"counter": self.counter, "stateVersion": self.state_version, "timestamp": self.timestamp}

    def assign(self, fields: Mapping[str, Any]) -> None:
        """Replace the numbers with those of a stored or received version. Missing numbers become 0. Raises `ValueError`
        or `TypeError` for an invalid number, and then changes none."""
        timestamp, counter = int(fields.get("timestamp") or 0), int(fields.get("counter") or 0)
        self.state_version = int(fields.get("stateVersion") or 0)
        self.timestamp, self.counter = timestamp, counter
