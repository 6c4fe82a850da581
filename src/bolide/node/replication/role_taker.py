"""What a member of a set asks of the broker whose role the controller gives."""

from __future__ import annotations

from typing import Protocol

from bolide.replication.standing import Told
from bolide.replication.sync_set import SyncSet


class RoleTaker(Protocol):
    """What takes the part that the controller gives (`node.replication.switching`)."""

    @property
    def sync_set(self) -> SyncSet | None:
        """Who confirms the log; None unless this broker is the master."""

    async def lead(self, told: Told, own_id: int) -> None:
        """Become the master of an epoch."""

    async def follow(self, told: Told, own_id: int) -> None:
        """Follow a master."""

    async def lose(self) -> None:
        """Be nothing until the next part: the epoch of this master is over."""

    def hung(self) -> bool:
        """Whether the log does not settle. Ask every second or so."""

    def now(self) -> int:
        """The time by which replicas catch up, ms."""

    def set_changed(self) -> None:
        """The set of replicas in sync is another one."""

    def disconnect(self, replicas: frozenset[int]) -> None:
        """Close the log connections of these replicas. Each has to report again before it can join the set."""

    def stands(self) -> tuple[int, int, int]:
        """Where the log ends that this broker keeps, up to where it is confirmed, and its newest epoch, -1 for none."""
