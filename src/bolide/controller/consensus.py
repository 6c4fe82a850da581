"""Interface between a controller and the engine that stores its decisions and elects the lead controller.

Every decision is one compare-and-set of one broker set. It is valid once `change` has returned its revision. The engine
rejects a write of a controller that has lost the leadership, even if the write was sent earlier and arrives late.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from bolide.controller.replica_set import ReplicaSet
from bolide.errors import LocalError


class StoreUnavailable(LocalError):
    """The engine is unreachable or could not store a decision. The operation may or may not have happened."""

    retriable = True


class LeadershipLost(LocalError):
    """Another controller is or may be the leader."""

    retriable = True


class Member(NamedTuple):
    """One controller of the group."""

    id: str
    address: str


class Leadership(NamedTuple):
    """The current leader, as far as this controller knows. `peers`: all live controllers of the group, by id."""

    leader: Member | None = None
    peers: tuple[Member, ...] = ()


class Kept(NamedTuple):
    """A set as stored by the engine. `revision` changes with every write and is never 0."""

    value: ReplicaSet
    revision: int


class ConsensusStore(Protocol):
    """The engine. Call its methods on the event loop. They raise `StoreUnavailable` and `LeadershipLost`."""

    @property
    def leadership(self) -> Leadership:
        """The current leadership."""

    @property
    def leads(self) -> bool:
        """Whether this controller is certainly the leader."""

    @property
    def reached(self) -> bool:
        """Whether the engine is reachable: its last operation succeeded. Thread-safe."""

    async def lead(self) -> None:
        """Wait until this controller is the leader."""

    async def deposed(self) -> None:
        """Wait until it is no longer certain that this controller is the leader."""

    async def load(self) -> dict[str, Kept]:
        """Return all sets by name. Raises `StateDamaged` if a stored set cannot be read."""

    async def change(self, value: ReplicaSet, expected: int) -> int:
        """Compare-and-set: store the set if its revision is `expected` (0 for a new set). Return the new revision."""

    async def stop(self) -> None:
        """Resign the leadership, so that another controller can lead immediately, and release all resources."""
