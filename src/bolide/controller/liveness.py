"""Tracks live brokers: their heartbeats, timeouts and connections. All state is in memory only.

Brokers send their heartbeats to every controller, so that a new leader already has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from bolide.controller.replica_set import Office, ReplicaSet
from bolide.remoting.headers.namesrv import BrokerHeartbeatRequestHeader
from bolide.remoting.replica_claims import NOT_KNOWN, Claims

HEARTBEAT_TIMEOUT_MS: Final = 10_000
"""Heartbeat timeout of a broker that does not specify one."""
LOWEST_PRIORITY: Final = 2**31 - 1


class Identity(NamedTuple):
    """Identifies a broker by the id that the controller assigned."""

    cluster: str
    name: str
    broker_id: int


class ClaimedTerm(NamedTuple):
    """One start of a broker as the master of an epoch, as claimed by the broker."""

    who: Identity
    epoch: int
    life: str


class Heartbeat:
    """Last heartbeat of a broker. `since` is the time of the first heartbeat on its connection. Times are ms."""

    __slots__ = ("channel_id", "epoch", "joined", "last", "life", "max_offset", "priority", "since", "timeout")

    def __init__(self, channel_id: int, now: int) -> None:
        self.channel_id = channel_id
        self.since = now
        self.last = now
        self.timeout = HEARTBEAT_TIMEOUT_MS
        self.epoch = -1
        self.max_offset = -1
        self.priority = LOWEST_PRIORITY
        self.life = ""
        self.joined = False
        """Whether the broker has joined the in-sync set, or become its master, since `since`."""

    def alive(self, now: int) -> bool:
        """Return whether the last heartbeat has not timed out."""
        return self.last + self.timeout >= now


class Liveness:
    """Heartbeats of all brokers, at most `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heard: dict[Identity, Heartbeat] = {}
        self._reports: dict[ClaimedTerm, Office] = {}
        """Last report of each master, least recent first. Kept after the master has failed. A controller that does not
        lead cannot check a claim, so it keeps all of them, and `office` selects the right one."""
        self._numbers: dict[tuple[Identity, str], int] = {}
        """Number of the last heartbeat of each start of a broker, least recent first."""

    def heard(
        self, channel_id: int, header: BrokerHeartbeatRequestHeader, broker_id: int, claims: Claims, now: int
    ) -> str:
        """Record a heartbeat. Return why it does not count, or "" if it does."""
        who = Identity(header.cluster_name, header.broker_name, broker_id)
        found = self._heard.get(who)
        if found is None and len(self._heard) >= self._most:
            return "more brokers than maxBrokers send heartbeats"
        if not self._is_new((who, claims.life), claims.number):
            return f"heartbeat {claims.number} of broker {broker_id} or a later one has arrived already"
        if found is None or found.channel_id != channel_id or found.life != claims.life:
            # A new connection may be from a new process, whose log may differ.
            found = self._heard[who] = Heartbeat(channel_id, now)
            found.life = claims.life
        found.last = now
        timeout = header.heartbeat_timeout_mills
        found.timeout = HEARTBEAT_TIMEOUT_MS if timeout is None else timeout
        found.priority = LOWEST_PRIORITY if header.election_priority is None else header.election_priority
        found.epoch = -1 if header.epoch is None else header.epoch
        found.max_offset = -1 if header.max_offset is None else header.max_offset
        if claims.leads >= 0:
            self._reported(ClaimedTerm(who, claims.leads, claims.life), claims)
        return ""

    def _is_new(self, start: tuple[Identity, str], number: int) -> bool:
        """Return whether a heartbeat is later than all others of this start of a broker. A broker without numbers
        cannot be checked."""
        last = self._numbers.get(start, NOT_KNOWN)
        if number <= last:
            return number == last == NOT_KNOWN
        self._numbers.pop(start, None)
        if len(self._numbers) >= self._most:
            del self._numbers[next(iter(self._numbers))]
        self._numbers[start] = number
        return True

    def _reported(self, term: ClaimedTerm, claims: Claims) -> None:
        known = self._reports.pop(term, None)
        if known is None and len(self._reports) >= self._most:
            del self._reports[next(iter(self._reports))]
        confirmed = claims.confirmed if known is None else max(claims.confirmed, known.confirmed)
        self._reports[term] = Office(term.who.broker_id, term.epoch, confirmed, claims.synced)

    def joined(self, one: ReplicaSet, broker_ids: Iterable[int]) -> None:
        """Called when replicas have joined the in-sync set, so that they hold everything that the set has confirmed."""
        for broker_id in broker_ids:
            found = self._heard.get(Identity(one.cluster, one.name, broker_id))
            if found is not None and _fits(one, broker_id, found):
                found.joined = True

    def office(self, one: ReplicaSet) -> Office | None:
        """Return the last office of a set, updated with later reports of its master, or None if there is none."""
        office = one.office
        if office is None:
            if one.master is None:
                return None
            office = Office(one.master, one.master_epoch)
        master = one.replicas.get(office.master)
        if master is None or not master.life:  # a broker of RocketMQ reports nothing
            return office
        who = Identity(one.cluster, one.name, office.master)
        return with_report(office, self._reports.get(ClaimedTerm(who, office.epoch, master.life)))

    def alive_in(self, one: ReplicaSet, now: int) -> dict[int, Heartbeat]:
        """Return the live replicas of a set, by id in ascending order."""
        found: dict[int, Heartbeat] = {}
        for broker_id in sorted(one.replicas):
            heartbeat = self._heard.get(Identity(one.cluster, one.name, broker_id))
            if heartbeat is not None and heartbeat.alive(now) and _fits(one, broker_id, heartbeat):
                found[broker_id] = heartbeat
        return found

    def counts(self, now: int) -> Counter[tuple[str, str]]:
        """Return the number of live brokers by cluster and set."""
        return Counter((who.cluster, who.name) for who, found in list(self._heard.items()) if found.alive(now))

    def expire(self, now: int) -> dict[Identity, int]:
        """Remove brokers whose heartbeat has timed out. Return them with the ids of their connections."""
        gone = {who: found.channel_id for who, found in self._heard.items() if not found.alive(now)}
        for who in gone:
            del self._heard[who]
        return gone

    def channel_closed(self, channel_id: int) -> list[Identity]:
        """Remove and return the brokers whose last heartbeat arrived on a closed connection."""
        gone = [who for who, found in self._heard.items() if found.channel_id == channel_id]
        for who in gone:
            del self._heard[who]
        return gone


def with_report(office: Office, told: Office | None) -> Office:
    """Return the last report from the same office if it has a higher confirm offset, otherwise the stored office."""
    return told if told is not None and told.confirmed > office.confirmed else office


def steady(one: ReplicaSet, broker_id: int, heartbeat: Heartbeat) -> bool:
    """Return whether an in-sync member has run without interruption since it joined, so that its log is complete.

    For a broker that sends no token, an interruption means a new connection to this controller.
    """
    replica = one.replicas[broker_id]
    return replica.joined == replica.life if replica.life else heartbeat.joined


def _fits(one: ReplicaSet, broker_id: int, heartbeat: Heartbeat) -> bool:
    """Return whether the heartbeat comes from the process that registered last."""
    replica = one.replicas.get(broker_id)
    return replica is not None and replica.life in ("", heartbeat.life)
