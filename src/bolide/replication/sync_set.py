"""In-sync set of a master, as confirmed by the controller (docs/protocol/ha.md 6).

Only a member can be elected, so bytes that every member holds survive while one member is alive. The master requests
every change from the controller. While the request is pending, it requires the acknowledgements of both sets.

A member whose connection ends has to leave the set, although it may be connected again by then: it may have restarted.
After a restart, the controller elects a replica immediately only once it has joined the set again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bolide.replication.absences import Absences

NOT_CONFIRMED: Final = -1
_NOWHERE: Final = 1 << 62
"""An offset above the end of any log."""
JOIN_MS: Final = 1000
"""A slave keeps up if it held a recent end of the log within this time. A slave that is counted before it is a member
must receive the bytes that were confirmed without it within the same time."""
FIRST_PAUSE_MS: Final = 200
"""Pause before a rejected replica is proposed again. Each further rejection doubles it."""
LONGEST_PAUSE_MS: Final = 5000


@dataclass
class _Replica:
    key: int
    """Key of its connection."""
    acked: int
    caught_up_at: int
    learner: bool
    end: int = _NOWHERE
    """End of the log when it was last compared with `acked`."""
    refusals: int = 0
    """Number of times that the controller has rejected the replica as a member."""
    kept_up_at: int | None = None
    """Time when the replica last held a recent end of the log, or None if it never did."""
    counts_ahead_from: int = 0
    """Earliest time at which the replica may be counted ahead again after a failed attempt to join."""
    not_before: int = 0
    """Earliest time at which the replica may be proposed again."""


class SyncSet:
    """In-sync set of one master in one epoch. Ids are assigned by the controller; `now` is ms."""

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
        """`epoch_start`: start offset of this master's epoch. `patience`: haMaxTimeSlaveNotCatchup in ms. With
        `absences`, a member is also expelled for the sum of its absences if at least `least` members remain."""
        self._own_id = own_id
        self._epoch_start = epoch_start
        self._patience = patience
        self._absences = absences
        self._least = least
        self._replicas: dict[int, _Replica] = {}
        self._asked: frozenset[int] | None = None
        self._interrupted = set(members - {own_id})
        """Members, and proposed members, without a connection that has lasted since they were proposed."""
        self._joining = 0
        """Slave that is counted although it is not a member yet, or 0 if no slave is."""
        self._joining_until = 0
        self._confirmed = 0
        self.members = members
        """Members that the controller confirmed last."""
        self.set_epoch = set_epoch

    # -- reports of slaves

    def connected(self, key: int, replica_id: int, learner: bool, now: int) -> None:
        """Register a slave after its handshake. Replaces an older connection of the same slave, as if it had closed."""
        known = self._replicas.get(replica_id)
        if known is not None and known.key != key:
            self._interrupt(replica_id)
        self._replicas[replica_id] = _Replica(key, NOT_CONFIRMED, now, learner)
        if self._absences is not None:
            self._absences.connected(replica_id, now)

    def reported(self, key: int, replica_id: int, acked: int, sent_when: int, now: int) -> None:
        """Record that the slave holds the log up to `acked`. `sent_when`: end of the log at the last transfer to the
        slave."""
        replica = self._replicas.get(replica_id)
        if replica is None or replica.key != key:
            return
        replica.acked = acked
        if acked >= sent_when:
            replica.caught_up_at = replica.kept_up_at = now

    def gone(self, key: int, replica_id: int) -> bool:
        """Called when a connection closes. Return False if the slave has a newer connection."""
        replica = self._replicas.get(replica_id)
        if replica is None or replica.key != key:
            return False
        del self._replicas[replica_id]
        self._interrupt(replica_id)
        if self._absences is not None:
            self._absences.gone(replica_id)
        if replica_id == self._joining:
            self._joining = 0
        return True

    def _interrupt(self, replica_id: int) -> None:
        if replica_id in self.members or (self._asked is not None and replica_id in self._asked):
            self._interrupted.add(replica_id)

    @property
    def outsiders(self) -> frozenset[int]:
        """Connected replicas that are not members and may become members."""
        return frozenset(
            each for each, replica in self._replicas.items() if each not in self.members and not replica.learner
        )

    # -- confirm offset

    @property
    def counted(self) -> frozenset[int]:
        """Replicas whose acknowledgements are required: members, proposed members, and a slave that is counted
        ahead."""
        counted = self.members | (self._asked or frozenset())
        return counted | {self._joining} if self._joining else counted

    def confirmed(self, end: int) -> int:
        """Return the offset up to which all counted replicas hold the log. Never falls, and does not advance while a
        member is disconnected. `end`: end of the log."""
        reached = end
        for member in self.counted - {self._own_id}:
            replica = self._replicas.get(member)
            reached = min(reached, replica.acked if replica is not None else NOT_CONFIRMED)
        self._confirmed = max(self._confirmed, reached)
        return self._confirmed

    def looked(self, key: int, replica_id: int, end: int, now: int, *, waits: bool = True) -> None:
        """Called with the durable end of this master's log before bytes are sent to a slave. `waits`: whether sends
        wait for the members."""
        replica = self._replicas.get(replica_id)
        if replica is None or replica.key != key:
            return
        if replica.acked >= replica.end:
            # It had the whole log until the log grew.
            replica.caught_up_at = now
        replica.end = end
        if waits and self._absences is not None:
            self._absences.looked(replica_id, replica.acked, end, now, member=replica_id in self.members)

    def holders(self, end: int) -> int:
        """Return the number of brokers that hold the log up to `end`, including this one."""
        return 1 + sum(replica.acked >= end for replica in self._replicas.values())

    def held_by_all(self, end: int) -> bool:
        """Return whether each counted replica holds the log up to `end`."""
        return self.confirmed(end) >= end

    # -- changes of the set

    def wanted(self, now: int) -> frozenset[int] | None:
        """Return the set to request from the controller, or None if it is unchanged or a request is pending.

        Removals precede additions. New members are proposed one by one, starting with the replicas that were rejected
        least often. So a replica that is unknown to the controller does not block other changes, and is proposed less
        and less often.
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
        """Hold the confirm offset for a slave that keeps up, so that it can join the set under a steady load.

        Otherwise more bytes are confirmed before each of its reports arrives, so it never holds all confirmed bytes.
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
                # So a replica that is unknown to the controller delays sends less and less often.
                replica.counts_ahead_from = now + self._patience * (1 + replica.refusals)
                return

    @property
    def joining_until(self) -> int:
        """Time when a slave is no longer counted ahead, or -1 if no slave is."""
        return self._joining_until if self._joining else -1

    def _belongs(self, replica_id: int, now: int) -> bool:
        if replica_id == self._own_id:
            return True
        replica = self._replicas.get(replica_id)
        if replica is None or replica.learner:
            return False
        if replica_id in self.members:
            keeps_up = replica.acked >= replica.end or now - replica.caught_up_at <= self._patience
            return keeps_up and replica_id not in self._interrupted
        return replica.acked >= max(self._confirmed, self._epoch_start) and self._may_join(replica_id, now)

    def _may_join(self, replica_id: int, now: int) -> bool:
        """Return False for an expelled replica on probation, unless the set has too few members without it."""
        absences = self._absences
        return absences is None or len(self.members) < self._least or absences.may_return(replica_id, now)

    def _longest_absent(self, replica_id: int, now: int) -> tuple[int, int]:
        assert self._absences is not None
        return self._absences.absent_ms(replica_id, now), replica_id

    @property
    def expelled(self) -> int:
        """Number of replicas that were expelled for the sum of their absences and have not returned."""
        return 0 if self._absences is None else self._absences.expelled

    def again_at(self, now: int) -> int:
        """Return when to propose a rejected replica again, or -1 if there is no such replica."""
        times = [
            replica.not_before
            for replica_id, replica in self._replicas.items()
            if replica.refusals and self._belongs(replica_id, now)
        ]
        return min(times, default=-1)

    @property
    def question(self) -> frozenset[int] | None:
        """Set of the pending request to the controller, or None."""
        return self._asked

    def asked(self, members: frozenset[int]) -> None:
        """Record a request to the controller for this set."""
        self._asked = members
        self._joining = 0

    def answered(self, members: frozenset[int], set_epoch: int, now: int) -> list[str]:
        """Apply a set reported by the controller, in a response or a notification. Ignores an older set. Return the
        reasons why members are expelled."""
        expelled: list[str] = []
        if set_epoch >= self.set_epoch:
            expelled = self._moved(members, now)
            self.members, self.set_epoch = members, set_epoch
            for replica_id in members & self._replicas.keys():
                self._replicas[replica_id].refusals = 0
        self._asked = None
        self._interrupted &= self.members
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
        """Called when the controller certainly rejected the request: after an error code, not after a lost response.

        After a lost response, the requested set remains counted until the controller reports the current set.
        """
        for replica_id in (self._asked or frozenset()) - self.members:
            replica = self._replicas.get(replica_id)
            if replica is not None:
                replica.not_before = now + min(FIRST_PAUSE_MS << min(replica.refusals, 10), LONGEST_PAUSE_MS)
                replica.refusals += 1
        self._asked = None
        self._interrupted &= self.members
