"""Which brokers live: heartbeats, their timeouts, and the connections they came over. Nothing of it is kept.

Brokers send their heartbeats to every controller, so that one that becomes the leader knows already.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from bolide.controller.replica_set import ReplicaSet
from bolide.remoting.headers.namesrv import BrokerHeartbeatRequestHeader

HEARTBEAT_TIMEOUT_MS: Final = 10_000
"""Of a broker that names none."""
LOWEST_PRIORITY: Final = 2**31 - 1


class Identity(NamedTuple):
    """A broker by the id that the controller gave it."""

    cluster: str
    name: str
    broker_id: int


class Heartbeat:
    """What a broker last said of itself. Times in ms."""

    __slots__ = ("channel_id", "epoch", "last", "max_offset", "priority", "timeout")

    def __init__(self) -> None:
        self.channel_id = 0
        self.last = 0
        self.timeout = HEARTBEAT_TIMEOUT_MS
        self.epoch = -1
        self.max_offset = -1
        self.priority = LOWEST_PRIORITY

    def alive(self, now: int) -> bool:
        """Whether it was heard of within its timeout."""
        return self.last + self.timeout >= now


class Liveness:
    """The brokers heard of, at most `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heard: dict[Identity, Heartbeat] = {}

    def heard(self, channel_id: int, header: BrokerHeartbeatRequestHeader, broker_id: int, now: int) -> bool:
        """Take a heartbeat; False when there are too many brokers for another one."""
        who = Identity(header.cluster_name, header.broker_name, broker_id)
        found = self._heard.get(who)
        if found is None:
            if len(self._heard) >= self._most:
                return False
            found = self._heard[who] = Heartbeat()
        found.channel_id = channel_id
        found.last = now
        timeout = header.heartbeat_timeout_mills
        found.timeout = HEARTBEAT_TIMEOUT_MS if timeout is None else timeout
        found.priority = LOWEST_PRIORITY if header.election_priority is None else header.election_priority
        epoch = -1 if header.epoch is None else header.epoch
        max_offset = -1 if header.max_offset is None else header.max_offset
        if (epoch, max_offset) > (found.epoch, found.max_offset):  # as in Java, a log that was cut is not noticed
            found.epoch, found.max_offset = epoch, max_offset
        return True

    def is_alive(self, one: ReplicaSet, broker_id: int, now: int) -> bool:
        """Whether a replica of a set lives."""
        found = self._heard.get(Identity(one.cluster, one.name, broker_id))
        return found is not None and found.alive(now)

    def alive_in(self, one: ReplicaSet, now: int) -> dict[int, Heartbeat]:
        """The replicas of a set that live, by id in ascending order."""
        found: dict[int, Heartbeat] = {}
        for broker_id in sorted(one.replicas):
            heartbeat = self._heard.get(Identity(one.cluster, one.name, broker_id))
            if heartbeat is not None and heartbeat.alive(now):
                found[broker_id] = heartbeat
        return found

    def counts(self, now: int) -> Counter[tuple[str, str]]:
        """How many brokers live, by cluster and set."""
        return Counter((who.cluster, who.name) for who, found in list(self._heard.items()) if found.alive(now))

    def expire(self, now: int) -> dict[Identity, int]:
        """Forget who is silent; their connections."""
        gone = {who: found.channel_id for who, found in self._heard.items() if not found.alive(now)}
        for who in gone:
            del self._heard[who]
        return gone

    def channel_closed(self, channel_id: int) -> list[Identity]:
        """Forget who was last heard over a connection that has ended."""
        gone = [who for who, found in self._heard.items() if found.channel_id == channel_id]
        for who in gone:
            del self._heard[who]
        return gone
