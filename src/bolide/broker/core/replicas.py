"""What a broker knows of its replicas, or of its master: asked for by GET_BROKER_HA_STATUS (907) and runtime info."""

from __future__ import annotations

from typing import Protocol

from bolide.remoting.bodies.replication import HAClientRuntimeInfo, HAConnectionRuntimeInfo


class Replicas(Protocol):
    """What replicates the log of this broker, in either direction, answers this. Nothing here may wait."""

    def connections(self, now: int) -> list[HAConnectionRuntimeInfo]:
        """A master's slaves, those in sync marked; of a slave nothing."""

    def lags(self, now: int) -> dict[str, int]:
        """For how long each slave of a master has lacked a part of its log, ms: 0 if it lacks nothing, -1 if it has not
        had all since it connected."""

    def in_sync(self, now: int) -> int:
        """How many slaves are in sync; the master does not count."""

    def expelled(self) -> int:
        """How many replicas are kept out of the set of a controller for a time, because they were absent too often."""

    def disk_hangs(self) -> bool:
        """Whether a broker under a controller is silent, because its log waits for a disk that does not answer."""

    def link(self, now: int) -> HAClientRuntimeInfo:
        """A slave's link to its master; of a master without a value."""

    def refused(self) -> str:
        """Why this slave rejects its master, with the command that resolves it; "" if it does not, and for a master."""

    def lag_ms(self, now: int) -> int:
        """How long ago this slave last had all of its master's log, -1 where nothing is known; 0 of a master."""


class NoReplicas:
    """The replicas of a broker that replicates with nobody."""

    def connections(self, now: int) -> list[HAConnectionRuntimeInfo]:
        """None are there."""
        return []

    def lags(self, now: int) -> dict[str, int]:
        """None does."""
        return {}

    def in_sync(self, now: int) -> int:
        """None is."""
        return 0

    def expelled(self) -> int:
        """None is."""
        return 0

    def disk_hangs(self) -> bool:
        """Nobody asks."""
        return False

    def link(self, now: int) -> HAClientRuntimeInfo:
        """There is none."""
        return HAClientRuntimeInfo()

    def refused(self) -> str:
        """There is no master to reject."""
        return ""

    def lag_ms(self, now: int) -> int:
        """Nothing lags."""
        return 0
