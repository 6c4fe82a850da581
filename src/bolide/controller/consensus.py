"""What a controller asks of the engine that keeps its decisions and says which controller leads.

Every decision is one compare-and-set of one set of replicas. It counts when `change` has returned its revision. A
store whose caller does not lead any more refuses it, however late it arrives.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from bolide.controller.replica_set import ReplicaSet
from bolide.errors import LocalError


class StoreUnavailable(LocalError):
    """The engine did not answer, or could not keep a decision. What was asked may have been done or not."""

    retriable = True


class LeadershipLost(LocalError):
    """Another controller leads, or may."""

    retriable = True


class Member(NamedTuple):
    """One controller of the group."""

    id: str
    address: str


class Leadership(NamedTuple):
    """Who leads, as far as this controller knows. peers: all controllers of the group that live, by id."""

    leader: Member | None = None
    peers: tuple[Member, ...] = ()


class Kept(NamedTuple):
    """A set as the engine holds it. revision: changes with every change of it; 0 is never one."""

    value: ReplicaSet
    revision: int


class ConsensusStore(Protocol):
    """The engine. Methods are called on the loop; they raise `StoreUnavailable` and `LeadershipLost`."""

    @property
    def leadership(self) -> Leadership:
        """Who leads now."""

    @property
    def leads(self) -> bool:
        """Whether this controller does, beyond doubt."""

    @property
    def reached(self) -> bool:
        """Whether it keeps decisions, as far as is known: it answered lately. Asked on any thread."""

    async def lead(self) -> None:
        """Return once this controller leads."""

    async def deposed(self) -> None:
        """Return once this controller does not lead any more, or may not for what it knows."""

    async def load(self) -> dict[str, Kept]:
        """All sets, by name. Raises `StateDamaged` too."""

    async def change(self, value: ReplicaSet, expected: int) -> int:
        """Keep a set whose revision is `expected` (0: there is none yet); the new revision."""

    async def stop(self) -> None:
        """Give up the lead, so that another controller need not wait, and let go of everything."""
