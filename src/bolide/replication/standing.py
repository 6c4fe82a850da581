"""State of a replica in controller mode (docs/protocol/ha.md, ReplicasManager.java).

A controller may respond late, twice, or with the state of an earlier leader. Epochs only grow, so a reply with an older
epoch than the current one is ignored.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Told(NamedTuple):
    """State of a broker set as reported by the controller. `master` is the id of the master, or None."""

    master: int | None
    address: str
    epoch: int
    members: frozenset[int]
    set_epoch: int


class Step(enum.Enum):
    """Action that a replica takes after a reply of the controller."""

    NOTHING = "nothing"
    ELECT = "elect"
    """There is no master: request an election, and reject writes until it has finished."""
    LEAD = "lead"
    """Become the master of this epoch."""
    FOLLOW = "follow"
    """Replicate from this master."""
    COUNT = "count"
    """Remain the master and use the new in-sync set."""


class Standing:
    """State of one replica in one broker set."""

    def __init__(self, own_id: int) -> None:
        self.own_id = own_id
        self.life = ""
        """Token of this start, by which the controller recognizes the replica."""
        self.epoch = -1
        """Newest epoch in which a role was assumed, or -1 before the first."""
        self._taken: Told | None = None

    @property
    def leads(self) -> bool:
        """Whether this replica is the master of `epoch`."""
        return self._taken is not None and self._taken.master == self.own_id

    def heard(self, told: Told) -> Step:
        """Return the action for a reply of the controller. The caller must call `took` after it has assumed a role."""
        if told.epoch < self.epoch:
            return Step.NOTHING
        if told.master is None:
            return Step.ELECT
        if told.epoch == self.epoch and self._taken is not None:
            if self.leads:
                return Step.COUNT
            return Step.NOTHING if told.address == self._taken.address else Step.FOLLOW
        return Step.LEAD if told.master == self.own_id else Step.FOLLOW

    def took(self, told: Told) -> None:
        """Record that the assigned role has been assumed."""
        self.epoch = told.epoch
        self._taken = told

    def lost(self) -> None:
        """Drop the role: the epoch has ended, or the role could not be assumed."""
        self._taken = None
