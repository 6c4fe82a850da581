"""Elects the master of a set (DefaultElectPolicy.java), and waits for members after all of them were down.

A member of the last in-sync set that has run without interruption since it joined has all confirmed messages, so a
failover elects such a member immediately. A member that returned may have lost a part of its log, or may be an older
copy. If only such members are left, the election waits for all of them, and the longest log wins. Logs with the same
newest epoch have equal bytes, so the longest contains the others. RocketMQ elects the member that returns first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bolide.controller.liveness import Heartbeat, steady
from bolide.controller.replica_set import ReplicaSet
from bolide.remoting.replica_claims import NOT_KNOWN

Living = Mapping[int, Heartbeat]
"""Live replicas of a set, by id."""


class Terms(NamedTuple):
    """Inputs of an election, in addition to the set and its live replicas."""

    designated: int | None = None
    """Replica that an operator chose; only this one can be elected. None if an operator chose none."""
    unclean: bool = False
    """Whether a replica that may lack acknowledged messages is electable."""
    waited: int = 0
    """Milliseconds since the first member returned to a set without a master."""
    longest_wait: int = 0
    """Milliseconds after which the election stops waiting for missing members; 0: no limit."""
    confirmed: int = NOT_KNOWN
    """Highest confirm offset of the set that the controller has received, or NOT_KNOWN."""
    synced: bool = False
    """Whether messages below `confirmed` were on disk when they were acknowledged."""


class ElectionWait(NamedTuple):
    """Reason why an election has no result although a member of the set is alive."""

    missing: tuple[int, ...]
    """Members that have not reported."""
    short_of: int = NOT_KNOWN
    """The confirmed offset that no reported log reaches; NOT_KNOWN if one does."""


class Choice(NamedTuple):
    """Result of an election: a master, a reason to wait, or neither if no member is alive."""

    master: int | None = None
    waits: ElectionWait | None = None


def elect(one: ReplicaSet, alive: Living, terms: Terms) -> Choice:
    """Elect a live in-sync replica, or any live replica if there is none and `terms` allow it.

    A master that never left remains the master unless another replica is designated. Members that never left precede
    members that returned. Among equals, the newest epoch wins, then the longest log, then the lowest priority number.
    """
    members = {broker_id: alive[broker_id] for broker_id in one.electable if broker_id in alive}
    if terms.designated is not None:
        # An operator who has removed the last in-sync member must choose one of the other replicas.
        allowed: Iterable[int] = alive if terms.unclean or not one.electable else members
        return Choice(terms.designated if terms.designated in allowed else None)
    never_left = {broker_id: each for broker_id, each in members.items() if steady(one, broker_id, each)}
    if never_left:
        return Choice(one.master if one.master in never_left else _best(never_left, one.master))
    if members:
        return _returned(one, members, terms)
    if terms.unclean:
        return Choice(one.master if one.master in alive else _best(alive, one.master))
    return Choice()


def _returned(one: ReplicaSet, members: Living, terms: Terms) -> Choice:
    """Elect among members that may each have lost a part of their log."""
    missing = tuple(broker_id for broker_id in one.electable if broker_id not in members)
    whole = {broker_id: each for broker_id, each in members.items() if each.max_offset >= terms.confirmed}
    best = _best(whole or members, one.master)
    over = 0 < terms.longest_wait <= terms.waited
    if missing:
        allowed = over and (bool(whole) or terms.unclean)
    else:
        # No other member can have a longer log. If messages were acknowledged before they were on disk, a power failure
        # explains the short log. Otherwise there is another cause, for example an older copy of a disk.
        allowed = bool(whole) or terms.unclean or not terms.synced
    if allowed:
        return Choice(best)
    return Choice(None, ElectionWait(missing, NOT_KNOWN if whole else terms.confirmed))


def _best(candidates: Living, master: int | None) -> int | None:
    return min(candidates, key=lambda broker_id: _rank(broker_id, candidates[broker_id], master), default=None)


def _rank(broker_id: int, heartbeat: Heartbeat, master: int | None) -> tuple[int, int, int, bool, int]:
    return -heartbeat.epoch, -heartbeat.max_offset, heartbeat.priority, broker_id != master, broker_id
