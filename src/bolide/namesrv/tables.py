"""Tables of a name server: clusters, live brokers, and the queues of each topic (RouteInfoManager.java).

The tables are changed only together and only here. They are not stored: brokers re-register within 30 seconds of a
restart. A broker that unregisters is removed immediately. Its topics, which may be many, are removed in batches. Until
then they refer to an unknown broker, and no response contains their queues there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from bolide.layout.names import MASTER_ID
from bolide.layout.permissions import PERM_WRITE
from bolide.remoting.bodies.route import BrokerData, QueueData
from bolide.remoting.bodies.topics import TopicConfig
from bolide.remoting.bodies.versions import DataVersion

DROPPED_AT_ONCE: Final = 20_000
"""Number of topics of unregistered brokers to remove in one batch: about ten milliseconds of work."""
MAX_NAME: Final = 1024
"""Maximum number of characters of a name or an address. Real names have at most a quarter of that."""


class BrokerAddress(NamedTuple):
    """Key of a live broker."""

    cluster: str
    addr: str


class Live:
    """A live broker. `last_update` and `timeout` are ms; `channel_id` is its connection."""

    __slots__ = ("broker_name", "channel_id", "data_version", "ha_server_addr", "last_update", "timeout")

    def __init__(
        self, broker_name: str, now: int, timeout: int, data_version: DataVersion, channel_id: int, ha_server_addr: str
    ) -> None:
        self.broker_name = broker_name
        self.last_update = now
        self.timeout = timeout
        self.data_version = data_version
        self.channel_id = channel_id
        self.ha_server_addr = ha_server_addr

    def expired(self, now: int) -> bool:
        """Return whether the last heartbeat is older than the timeout."""
        return self.last_update + self.timeout < now


class Tables:
    """Clusters, brokers, live entries, filter servers and topics."""

    def __init__(self) -> None:
        self.clusters: dict[str, dict[str, None]] = {}  # cluster -> broker names, in order of arrival
        self.brokers: dict[str, BrokerData] = {}
        self.live: dict[BrokerAddress, Live] = {}
        self.filter_servers: dict[BrokerAddress, list[str]] = {}
        self.topics: dict[str, dict[str, QueueData]] = {}  # topic -> broker name -> queues
        self.topic_entries = 0  # topics of all brokers; a topic of two brokers is counted twice
        self.names_listed = 0  # broker names of all clusters
        self._clusters_of: dict[str, dict[str, None]] = {}  # broker name -> the clusters that list it
        self._topics_of: dict[str, dict[str, None]] = {}  # broker name -> its topics
        self._leaving: dict[str, dict[str, None]] = {}  # topics of unregistered brokers, to be removed

    def data_version(self, cluster: str, addr: str) -> DataVersion | None:
        """Return the DataVersion of a broker's last registration, or None if the broker is not live."""
        live = self.live.get(BrokerAddress(cluster, addr))
        return live.data_version if live is not None else None

    def refresh(self, cluster: str, addr: str, now: int) -> None:
        """Record a heartbeat."""
        live = self.live.get(BrokerAddress(cluster, addr))
        if live is not None:
            live.last_update = now

    def list_broker(self, cluster: str, broker_name: str) -> None:
        """Add a broker name to a cluster. It is removed with the last address of that name."""
        names = self.clusters.setdefault(cluster, {})
        if broker_name not in names:
            names[broker_name] = None
            self.names_listed += 1
            self._clusters_of.setdefault(broker_name, {})[cluster] = None

    def put_queues(self, broker_name: str, config: TopicConfig, perm: int) -> None:
        """Add or replace the queues of a topic at a broker."""
        self.put_queue(
            config.topic_name,
            QueueData(broker_name, config.read_queue_nums, config.write_queue_nums, perm, config.topic_sys_flag),
        )

    def put_queue(self, topic: str, queue: QueueData) -> None:
        """Like `put_queues`, for queues in the form of a response."""
        queues = self.topics.setdefault(topic, {})
        if queue.broker_name not in queues:
            self.topic_entries += 1
        queues[queue.broker_name] = queue
        self._topics_of.setdefault(queue.broker_name, {})[topic] = None

    def topics_of(self, broker_name: str) -> dict[str, None]:
        """Return the topics with queues at a known broker, in order of arrival."""
        return self._topics_of.get(broker_name, {})

    def drop_topic(self, topic: str, broker_names: Iterable[str] | None = None) -> None:
        """Remove a topic everywhere or at these brokers."""
        queues = self.topics.get(topic)
        if queues is None:
            return
        for name in list(queues if broker_names is None else broker_names):
            if queues.pop(name, None) is not None:
                self.topic_entries -= 1
            self.topics_of(name).pop(topic, None)
        if not queues:
            del self.topics[topic]

    def change_perms(self, broker_name: str, change: Callable[[int], int]) -> int:
        """Change the permission of every topic at a broker. Return the number of topics."""
        found = [self.topics[topic][broker_name] for topic in self.topics_of(broker_name)]
        for queue in found:
            queue.perm = change(queue.perm)
        return len(found)

    def remove(self, broker_name: str, address: BrokerAddress) -> None:
        """Remove an address. The last address of a broker name also removes the broker, its queues, and topics without
        queues."""
        self.live.pop(address, None)
        self.filter_servers.pop(address, None)
        broker = self.brokers.get(broker_name)
        if broker is None:
            return
        for broker_id in [number for number, addr in broker.broker_addrs.items() if addr == address.addr]:
            del broker.broker_addrs[broker_id]
        if broker.broker_addrs:
            if broker.enable_acting_master and MASTER_ID not in broker.broker_addrs:
                self.change_perms(
                    broker_name, lambda perm: perm & ~PERM_WRITE
                )  # a slave acts as master and rejects sends
            return
        del self.brokers[broker_name]
        for cluster in self._clusters_of.pop(broker_name, {}):
            names = self.clusters[cluster]
            del names[broker_name]
            self.names_listed -= 1
            if not names:
                del self.clusters[cluster]
        topics = self._topics_of.pop(broker_name, None)
        if topics:
            self._leaving[broker_name] = topics

    @property
    def leaving(self) -> bool:
        """Whether topics of unregistered brokers are pending for `drop_some`."""
        return bool(self._leaving)

    def drop_some(self, budget: int = DROPPED_AT_ONCE) -> None:
        """Remove up to `budget` topics of unregistered brokers."""
        while self._leaving and budget > 0:
            budget -= self._drop(next(iter(self._leaving)), budget)

    def comes_back(self, broker_name: str) -> None:
        """Remove the old topics of a broker that registers again."""
        while broker_name in self._leaving:
            self._drop(broker_name, DROPPED_AT_ONCE)

    def _drop(self, broker_name: str, budget: int) -> int:
        topics = self._leaving[broker_name]
        dropped = 0
        while topics and dropped < budget:
            self.drop_topic(topics.popitem()[0], (broker_name,))
            dropped += 1
        if not topics:
            del self._leaving[broker_name]
        return dropped
