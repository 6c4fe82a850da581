"""State of a broker's replicas, or of its master: for GET_BROKER_HA_STATUS (907) and runtime info."""

from __future__ import annotations

from typing import Protocol

from bolide.remoting.bodies.replication import HAClientRuntimeInfo, HAConnectionRuntimeInfo


class Replicas(Protocol):
    """Implemented by the replication of this broker, in either direction. Methods must not block."""

    def connections(self, now: int) -> list[HAConnectionRuntimeInfo]:
        """Return a master's slaves with their in-sync state; empty on a slave."""

    def lags(self, now: int) -> dict[str, int]:
        """Return the replication lag of each slave of a master, ms: 0 if caught up, -1 if not caught up since it
        connected."""

    def in_sync(self, now: int) -> int:
        """Return the number of slaves in sync, excluding the master."""

    def expelled(self) -> int:
        """Return how many replicas are excluded from a controller's in-sync set because they were absent too often."""

    def disk_hangs(self) -> bool:
        """Return whether a broker in controller mode has stopped its heartbeats because its log waits for a hung
        disk."""

    def link(self, now: int) -> HAClientRuntimeInfo:
        """Return the state of a slave's connection to its master; empty on a master."""

    def refused(self) -> str:
        """Return why this slave rejects its master, with the command that resolves it; "" if it does not, or on a
        master."""

    def lag_ms(self, now: int) -> int:
        """Return the replication lag of this slave, ms; -1 if unknown, 0 on a master."""


class NoReplicas:
    """State of a broker without slaves and without a master. Base class for brokers that have either."""

    def connections(self, now: int) -> list[HAConnectionRuntimeInfo]:
        """Always empty."""
        return []

    def lags(self, now: int) -> dict[str, int]:
        """Always empty."""
        return {}

    def in_sync(self, now: int) -> int:
        """Always 0."""
        return 0

    def expelled(self) -> int:
        """Always 0."""
        return 0

    def disk_hangs(self) -> bool:
        """Always False."""
        return False

    def link(self, now: int) -> HAClientRuntimeInfo:
        """Always empty."""
        return HAClientRuntimeInfo()

    def refused(self) -> str:
        """Always ""."""
        return ""

    def shares_log(self) -> bool:
        """Always True."""
        return True

    def lag_ms(self, now: int) -> int:
        """Always 0."""
        return 0
