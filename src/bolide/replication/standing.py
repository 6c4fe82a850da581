"""Where a replica stands by what its controller says (docs/protocol/ha.md, ReplicasManager.java).

A controller may answer late, twice, or with what it knew before another one led. Epochs only grow, so what is older
than what was done already changes nothing.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Told(NamedTuple):
    """What the controller says of a set. master: None while there is none."""

    master: int | None
    address: str
    epoch: int
    members: frozenset[int]
    set_epoch: int


class Step(enum.Enum):
    """What a replica does about it."""

    NOTHING = "nothing"
    ELECT = "elect"
    """There is no master: ask for an election, and write nothing until it is over."""
    LEAD = "lead"
    """Become the master of this epoch."""
    FOLLOW = "follow"
    """Follow this master."""
    COUNT = "count"
    """Stay the master; this is the set now."""


class Standing:
    """One replica in one set."""

    def __init__(self, own_id: int) -> None:
        self.own_id = own_id
        self.life = ""
        """The token of this start, by which the controller recognizes the replica."""
        self.epoch = -1
        """The newest epoch in which a part was taken; -1 before the first."""
        self._taken: Told | None = None

    @property
    def leads(self) -> bool:
        """True for the master of `epoch`."""
        return self._taken is not None and self._taken.master == self.own_id

    def heard(self, told: Told) -> Step:
        """What to do now. Once it is done, `took` is called."""
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
        """The part that the controller gave is taken."""
        self.epoch = told.epoch
        self._taken = told

    def lost(self) -> None:
        """No part is taken any more: the epoch is over, or its part could not be taken."""
        self._taken = None
