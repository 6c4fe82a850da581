"""The set of a master's replicas that confirm its log, as the controller knows it (docs/protocol/ha.md 6).

Only a member can be elected. So what every member holds is never lost while one of them lives, and the master asks the
controller before it counts on a new member, or without an old one. While the answer is on its way both sets count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bolide.replication.absences import Absences

NOT_CONFIRMED: Final = -1
JOIN_MS: Final = 1000
"""A slave that held all of the log so long ago keeps up. One that counts before it is a member has so long to hold what
was confirmed before it counted."""
FIRST_PAUSE_MS: Final = 200
"""For so long a replica that was refused is not asked for again; each further refusal doubles it."""
LONGEST_PAUSE_MS: Final = 5000


@dataclass
class _Replica:
    key: int
    """Its connection."""
    acked: int
    caught_up_at: int
    learner: bool
    refusals: int = 0
    """How often the controller did not take it into the set."""
    kept_up_at: int | None = None
    """When it had all of the log that there was a moment before; None until it had."""
    counts_ahead_from: int = 0
    """It may not count ahead before: it did not become a member the last time."""
    not_before: int = 0
    """When it may be asked for again."""


class SyncSet:
    """Of one master in one epoch. Ids are the controller's, `now` is ms."""

    def __init__(
        self,
        own_id: int,
        members: frozenset[int],
        set_epoch: int,
        epoch_start: int,
        patience: int,
        absences: Absences | None = None,
        least: int = 1,
    ) -> None:
        """`epoch_start` is where the epoch of this master starts, `patience` haMaxTimeSlaveNotCatchup. With `absences`
        a member is also expelled for their sum, if `least` members remain."""
        self._own_id = own_id
        self._epoch_start = epoch_start
        self._patience = patience
        self._absences = absences
        self._least = least
        self._replicas: dict[int, _Replica] = {}
        self._asked: frozenset[int] | None = None
        self._joining = 0
        """The slave that counts already, before the controller is asked for it; 0 for none."""
        self._joining_until = 0
        self._confirmed = 0
        self.members = members
        """The set that the controller confirmed last."""
        self.set_epoch = set_epoch

    # -- what slaves say

    def connected(self, key: int, replica_id: int, learner: bool, now: int) -> None:
        """A slave opened with its handshake; an older connection of the same slave counts no more."""
        self._replicas[replica_id] = _Replica(key, NOT_CONFIRMED, now, learner)
        if self._absences is not None:
            self._absences.connected(replica_id, now)

    def reported(self, key: int, replica_id: int, acked: int, sent_when: int, now: int) -> None:
        """The slave holds the log up to `acked`; `sent_when` is where the log ended at the last transfer to it."""
        replica = self._replicas.get(replica_id)
        if replica is None or replica.key != key:
            return
        replica.acked = acked
        if acked >= sent_when:
            replica.caught_up_at = replica.kept_up_at = now

    def idle(self, key: int, replica_id: int, now: int) -> None:
        """There is nothing to send to this slave."""
        replica = self._replicas.get(replica_id)
        if replica is not None and replica.key == key:
            replica.caught_up_at = now

    def gone(self, key: int, replica_id: int) -> bool:
        """That connection ended; False for an older one of this slave."""
        replica = self._replicas.get(replica_id)
        if replica is None or replica.key != key:
            return False
        del self._replicas[replica_id]
        if self._absences is not None:
            self._absences.gone(replica_id)
        if replica_id == self._joining:
            self._joining = 0
        return True

    @property
    def outsiders(self) -> frozenset[int]:
        """Connected replicas that are not members and may become members."""
        return frozenset(
            each for each, replica in self._replicas.items() if each not in self.members and not replica.learner
        )

    # -- what the set confirms

    @property
    def counted(self) -> frozenset[int]:
        """Everybody who counts: the members, those that were asked for, and who is about to be."""
        counted = self.members | (self._asked or frozenset())
        return counted | {self._joining} if self._joining else counted

    def confirmed(self, end: int) -> int:
        """Up to where each member holds the log, which ends at `end` here; it never falls, and waits for a member that
        has no connection."""
        reached = end
        for member in self.counted - {self._own_id}:
            replica = self._replicas.get(member)
            reached = min(reached, replica.acked if replica is not None else NOT_CONFIRMED)
        self._confirmed = max(self._confirmed, reached)
        return self._confirmed

    def looked(self, key: int, replica_id: int, end: int, now: int) -> None:
        """Called with the offset up to which this master's log is settled, while sends wait for the members."""
        replica = self._replicas.get(replica_id)
        if self._absences is not None and replica is not None and replica.key == key:
            self._absences.looked(replica_id, replica.acked, end, now, member=replica_id in self.members)

    def holders(self, end: int) -> int:
        """How many machines hold the log up to `end`, this one among them."""
        return 1 + sum(replica.acked >= end for replica in self._replicas.values())

    def held_by_all(self, end: int) -> bool:
        """True when each member holds the log up to `end`."""
        return self.confirmed(end) >= end

    # -- what the set becomes

    def wanted(self, now: int) -> frozenset[int] | None:
        """The set to ask the controller for; None while it is right, or a question is on its way.

        Who must leave leaves first, and new members come one by one, those first that were refused least: a replica
        that the controller does not know keeps nobody else out, and nobody in, and is asked for less and less often.
        """
        if self._asked is not None:
            return None
        left = frozenset(replica_id for replica_id in self.members if self._belongs(replica_id, now))
        if left != self.members:
            return left
        if self._absences is not None and len(left) > self._least:
            absent = [each for each in left if each != self._own_id and self._absences.exceeded(each, now)]
            if absent:
                return left - {max(absent, key=lambda each: self._longest_absent(each, now))}
        new = [
            each
            for each, replica in self._replicas.items()
            if each not in left and now >= replica.not_before and self._belongs(each, now)
        ]
        return left | {min(new, key=lambda each: (self._replicas[each].refusals, each))} if new else None

    def count_ahead(self, now: int) -> None:
        """Let what is confirmed wait for a slave that keeps up and is no member, so that it can become one.

        Under a steady load more is confirmed without it by the time it reports, so it would never hold all of that.
        """
        if self._joining and now >= self._joining_until:
            self._joining = 0
        if self._joining or self._asked is not None:
            return
        for replica_id, replica in self._replicas.items():
            if (
                replica_id not in self.members
                and not replica.learner
                and self._epoch_start <= replica.acked < self._confirmed
                and replica.kept_up_at is not None
                and now - replica.kept_up_at <= JOIN_MS
                and now >= max(replica.counts_ahead_from, replica.not_before)
                and self._may_join(replica_id, now)
            ):
                self._joining, self._joining_until = replica_id, now + JOIN_MS
                # One that the controller does not know delays sends less and less often.
                replica.counts_ahead_from = now + self._patience * (1 + replica.refusals)
                return

    @property
    def joining_until(self) -> int:
        """When a slave that counts ahead is given up; -1 without one."""
        return self._joining_until if self._joining else -1

    def _belongs(self, replica_id: int, now: int) -> bool:
        if replica_id == self._own_id:
            return True
        replica = self._replicas.get(replica_id)
        if replica is None or replica.learner:
            return False
        if replica_id in self.members:
            return now - replica.caught_up_at <= self._patience
        return replica.acked >= max(self._confirmed, self._epoch_start) and self._may_join(replica_id, now)

    def _may_join(self, replica_id: int, now: int) -> bool:
        """False for an expelled replica on probation, unless the set has too few members without it."""
        absences = self._absences
        return absences is None or len(self.members) < self._least or absences.may_return(replica_id, now)

    def _longest_absent(self, replica_id: int, now: int) -> tuple[int, int]:
        assert self._absences is not None
        return self._absences.absent_ms(replica_id, now), replica_id

    @property
    def expelled(self) -> int:
        """Number of replicas that may not return yet because of the sum of their absences."""
        return 0 if self._absences is None else self._absences.expelled

    def due(self) -> int:
        """When a member is to be given up, if it does not catch up; -1 for never."""
        times = [
            replica.caught_up_at + self._patience + 1
            for replica_id, replica in self._replicas.items()
            if replica_id in self.members
        ]
        return min(times, default=-1)

    def again_at(self, now: int) -> int:
        """When a replica that was refused, and belongs to the set, is asked for again; -1 for none."""
        times = [
            replica.not_before
            for replica_id, replica in self._replicas.items()
            if replica.refusals and self._belongs(replica_id, now)
        ]
        return min(times, default=-1)

    @property
    def question(self) -> frozenset[int] | None:
        """The set that the controller was asked for and has not answered."""
        return self._asked

    def asked(self, members: frozenset[int]) -> None:
        """The controller is asked for this set."""
        self._asked = members
        self._joining = 0

    def answered(self, members: frozenset[int], set_epoch: int, now: int) -> list[str]:
        """Apply the set that the controller reports, in an answer or unasked. Ignores an older set. Return the reasons
        why members are expelled."""
        expelled: list[str] = []
        if set_epoch >= self.set_epoch:
            expelled = self._moved(members, now)
            self.members, self.set_epoch = members, set_epoch
            for replica_id in members & self._replicas.keys():
                self._replicas[replica_id].refusals = 0
        self._asked = None
        return expelled

    def _moved(self, members: frozenset[int], now: int) -> list[str]:
        absences, expelled = self._absences, list[str]()
        if absences is None:
            return expelled
        for replica_id in sorted(self.members - members):
            absent = absences.absent_ms(replica_id, now)
            if absences.left(replica_id, now):
                seconds = absences.probation(replica_id) / 1000
                expelled.append(
                    f"replica {replica_id} is expelled, because sends waited {absent / 1000:.0f} s for it within "
                    f"{absences.window / 1000:.0f} s; it may return after {seconds:.0f} s without a delay"
                )
        for replica_id in sorted(members - self.members):
            absences.joined(replica_id, now)
        return expelled

    def refused(self, now: int) -> None:
        """The controller did not take what it was asked for, for certain: an error code, not a lost answer.

        After a lost answer the asked set keeps counting until the controller says what the set is.
        """
        for replica_id in (self._asked or frozenset()) - self.members:
            replica = self._replicas.get(replica_id)
            if replica is not None:
                replica.not_before = now + min(FIRST_PAUSE_MS << min(replica.refusals, 10), LONGEST_PAUSE_MS)
                replica.refusals += 1
        self._asked = None
