"""A cluster to read from: a name server and a broker of Bolide, or RocketMQ's own.

Both filter by properties, take traces, and have small files, so that a test can have some of them deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bolide.client import Message, SendResult
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.queues import Offsets, Queue
from bolide.spark.source.source_options import read_options
from bolide.testing.broker import Broker
from proof.kit.waiting import wait_until
from tests.client.patient_blocking import Admin
from tests.spark.produce import send

SEGMENT = 1 << 20


@dataclass(frozen=True)
class Target:
    """Where a cluster is, and what it is."""

    kind: str
    namesrv_addr: str
    broker_addr: str
    broker_name: str
    store: Path

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """Create a topic; returns when the name server routes to it."""
        with Admin(self.namesrv_addr) as admin:
            admin.create_topic(topic, queues=queues)

    def send(self, messages: Sequence[Message]) -> list[SendResult]:
        """Send all and return where each is, once all can be read: Java answers before its queues know a message."""
        results = send(self.namesrv_addr, messages)
        ends: Offsets = {}
        for result in results:
            queue = Queue(result.queue.topic, result.queue.broker_name, result.queue.queue_id)
            ends[queue] = max(ends.get(queue, 0), result.queue_offset + 1)
        cluster = Cluster(read_options(self.options(messages[0].topic)))
        wait_until(lambda: all(cluster.latest([queue])[queue] >= end for queue, end in ends.items()), "all can be read")
        cluster.close()
        return results

    def wait_for(self, topic: str, count: int) -> None:
        """Return once this many messages of a topic can be read, from any sender."""
        cluster = Cluster(read_options(self.options(topic)))
        queues = cluster.queues([topic])

        def there() -> int:
            return sum(cluster.latest(queues).values()) - sum(cluster.earliest(queues).values())

        wait_until(lambda: there() >= count, f"{count} messages in {topic}")
        cluster.close()

    def options(self, topic: str, **more: object) -> Mapping[str, str]:
        """Options of a read of this topic."""
        return {"namesrv": self.namesrv_addr, "subscribe": topic} | {name: str(value) for name, value in more.items()}


def bolide_target() -> Iterator[Target]:
    """A broker in this process."""
    with Broker(enable_property_filter=True, trace_topic_enable=True, mapped_file_size_commit_log=SEGMENT) as broker:
        yield Target("bolide", broker.namesrv_addr, broker.broker_addr, "broker-a", Path(broker.store_folder))


def java_target(folder: Path) -> Iterator[Target]:
    """RocketMQ 5.5.0 as two processes."""
    from proof.interop.java_processes import JavaBroker, JavaNameServer

    namesrv = JavaNameServer(folder / "namesrv")
    try:
        settings = {"enablePropertyFilter": "true", "traceTopicEnable": "true", "cleanResourceInterval": "500"}
        broker = JavaBroker(folder / "broker", namesrv.address, {**settings, "mappedFileSizeCommitLog": str(SEGMENT)})
        try:
            yield Target("java", namesrv.address, broker.address, "broker-a", broker.store)
        finally:
            broker.kill()  # nobody reads the store: a good end takes 15 s
    finally:
        namesrv.kill()
