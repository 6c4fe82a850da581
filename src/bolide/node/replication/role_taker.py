"""Interface between the membership of a broker and the replication that changes its role."""

from __future__ import annotations

from typing import Protocol

from bolide.replication.standing import Told
from bolide.replication.sync_set import SyncSet


class RoleTaker(Protocol):
    """Changes the role of a broker as assigned by the controller. Implemented by `node.replication.switching`."""

    @property
    def sync_set(self) -> SyncSet | None:
        """The in-sync set, or None if this broker is not the master."""

    async def lead(self, told: Told, own_id: int) -> None:
        """Become the master of an epoch."""

    async def follow(self, told: Told, own_id: int) -> None:
        """Become a slave of a master."""

    async def lose(self) -> None:
        """Called when the master's epoch has ended: stop serving requests until a new role is assigned."""

    def hung(self) -> bool:
        """Return whether the log makes no progress because the disk hangs. Call about once per second."""

    def now(self) -> int:
        """Return the time used to measure replication lag, ms."""

    def set_changed(self) -> None:
        """Called when the in-sync set has changed."""

    def disconnect(self, replicas: frozenset[int]) -> None:
        """Close the log connections of these replicas. Each has to report again before it can join the set."""

    def stands(self) -> tuple[int, int, int]:
        """Return the end of the safe log, the confirm offset, and the newest epoch (-1 if there is none)."""
