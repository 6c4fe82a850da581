"""MessageQueue: one queue of a topic on one broker, like RocketMQ's class, with Java's sort order."""

from __future__ import annotations

from typing import NamedTuple


class MessageQueue(NamedTuple):
    """Topic, broker name and queue id. Sorts by these three; rebalance depends on this order."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"

    def java_text(self) -> str:
        """Return Java's ``MessageQueue.toString()``, the input of CONSISTENT_HASH."""
        return f"MessageQueue [topic={self.topic}, brokerName={self.broker_name}, queueId={self.queue_id}]"


def java_order(text: str) -> bytes:
    """Return a sort key equal to Java's String order, which compares UTF-16 units instead of code points."""
    return text.encode("utf-16-be", "surrogatepass")


def queue_order(queue: MessageQueue) -> tuple[bytes, bytes, int]:
    """Return the sort key of a queue in Java's order."""
    return java_order(queue.topic), java_order(queue.broker_name), queue.queue_id
