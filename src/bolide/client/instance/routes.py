"""Routes of topics: RocketMQ's TopicRouteData, and the queues that producers and consumers use."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from bolide.client.messages.queue import MessageQueue
from bolide.errors import ProtocolError
from bolide.layout.names import MASTER_ID
from bolide.layout.permissions import PERM_READ, PERM_READ_WRITE, PERM_WRITE
from bolide.remoting.bodies.base import decode_answer
from bolide.remoting.bodies.route import TopicRouteData
from bolide.remoting.errors import BodyError


class QueueInfo(Struct, frozen=True):
    """The queues and permissions of a topic on one broker."""

    broker_name: str
    read_queues: int
    write_queues: int
    perm: int


class TopicRoute(Struct, frozen=True):
    """The queues of a topic and the addresses of their brokers by broker id (0 is the master)."""

    topic: str
    queues: tuple[QueueInfo, ...]
    brokers: Mapping[str, Mapping[int, str]]
    clusters: Mapping[str, str] = field(default_factory=dict)
    order_conf: str = ""

    def write_queues(self) -> list[MessageQueue]:
        """Return the queues for sends: writable, on a broker with a known master, or as the order conf lists them."""
        if self.order_conf:
            found = []
            for part in self.order_conf.split(";"):
                name, _, count = part.partition(":")
                if count.isdigit():
                    found += [MessageQueue(self.topic, name, queue_id) for queue_id in range(int(count))]
            return found
        return [
            MessageQueue(self.topic, info.broker_name, queue_id)
            for info in sorted(self.queues, key=lambda info: info.broker_name)
            if info.perm & PERM_WRITE and MASTER_ID in self.brokers.get(info.broker_name, {})
            for queue_id in range(info.write_queues)
        ]

    def read_queues(self) -> list[MessageQueue]:
        """Return the queues that consumers may read."""
        return [
            MessageQueue(self.topic, info.broker_name, queue_id)
            for info in sorted(self.queues, key=lambda info: info.broker_name)
            if info.perm & PERM_READ
            for queue_id in range(info.read_queues)
        ]

    def of_light_queue(self, topic: str) -> TopicRoute:
        """Return the route of a light queue (LMQ) whose parent is this topic: one queue on each of its brokers."""
        names = sorted({info.broker_name for info in self.queues})
        queues = tuple(QueueInfo(name, 1, 1, PERM_READ_WRITE) for name in names)
        return TopicRoute(topic, queues, self.brokers, self.clusters)

    def from_template(self, topic: str, queue_count: int) -> TopicRoute:
        """Return the route of a topic that does not exist yet, with at most `queue_count` queues per broker."""
        queues = tuple(
            QueueInfo(
                info.broker_name,
                min(queue_count, info.read_queues),
                min(queue_count, info.read_queues),
                info.perm,
            )
            for info in self.queues
        )
        return TopicRoute(topic, queues, self.brokers, self.clusters)


def decode_route(topic: str, body: bytes) -> TopicRoute:
    """Decode the route in a GET_ROUTEINFO_BY_TOPIC response. Raises `ProtocolError` if it is invalid."""
    try:
        data = decode_answer(body, TopicRouteData)
    except BodyError as error:
        raise ProtocolError(f"the route of topic {topic} cannot be read: {error}") from error
    names = [queue.broker_name for queue in data.queue_datas] + [broker.broker_name for broker in data.broker_datas]
    if not all(names):
        raise ProtocolError(f"the route of topic {topic} cannot be read: a broker in it has no name")
    return TopicRoute(
        topic,
        tuple(
            QueueInfo(queue.broker_name, queue.read_queue_nums, queue.write_queue_nums, queue.perm)
            for queue in data.queue_datas
        ),
        {broker.broker_name: broker.broker_addrs for broker in data.broker_datas},
        {broker.broker_name: broker.cluster for broker in data.broker_datas},
        data.order_topic_conf or "",
    )
