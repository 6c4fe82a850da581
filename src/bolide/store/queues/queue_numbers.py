"""Assigns queue offsets (RocketMQ's QueueOffsetOperator).

An offset is assigned when a message is appended, and released if the message could not be written. The next offset of a
queue that was not used since the start is the end of the queue, because recovery has dispatched everything.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from bolide.dispatch.multi import LMQ_QUEUE_ID, MultiQueue, with_offsets
from bolide.dispatch.row import Dispatch, in_queue
from bolide.layout.broker_message import BrokerMessage
from bolide.store.queues.consume_queues import ConsumeQueues


@final
class QueueNumbers:
    """The next offset of every queue used since the start."""

    def __init__(self, queues: ConsumeQueues) -> None:
        self._queues = queues
        self._next: dict[str, dict[int, int]] = {}

    def peek(self, topic: str, queue_id: int) -> i64:
        """Return the queue offset of the next message."""
        by_id = self._next.get(topic)
        known = by_id.get(queue_id, -1) if by_id is not None else -1
        if known >= 0:
            return known
        queue = self._queues.get(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    def take(self, topic: str, queue_id: int) -> i64:
        """Assign and return the queue offset of a message that is appended now."""
        by_id = self._next.get(topic)
        if by_id is None:
            by_id = self._next[topic] = {}
        known = by_id.get(queue_id, -1)
        queue_offset: i64 = known if known >= 0 else self.peek(topic, queue_id)
        by_id[queue_id] = int(queue_offset + 1)
        return queue_offset

    def give_back(self, topic: str, queue_id: int, queue_offset: i64) -> None:
        """Release the queue offset of a message that was not written. Call in reverse order of `take`."""
        by_id = self._next.get(topic)
        if by_id is not None:  # the topic may have been deleted in the meantime
            by_id[queue_id] = int(queue_offset)

    def take_back(self, dispatches: list[Dispatch], written: i64) -> None:
        """Release the queue offsets of records at or after `written`, which were not written."""
        deleted = self._queues.deleted
        for d in reversed(dispatches):
            if d.physical_offset < written or not in_queue(d):
                continue
            at = int(d.physical_offset)
            if d.multi is not None:  # each separately, because any of these topics may have been deleted in this turn
                self.free([light for light in d.multi if not deleted.covers(light.topic, at)])
            if not deleted.covers(d.topic, at):
                self.give_back(d.topic, int(d.queue_id), d.queue_offset)

    def known(self, topic: str) -> dict[int, int]:
        """Return the next offsets of a topic's queues that were used since the start, by queue id."""
        return self._next.get(topic, {})

    def knows(self, topic: str) -> bool:
        """Return whether a message of this topic was appended since the start."""
        return topic in self._next

    def forget(self, topic: str) -> None:
        """Drop the offsets of a deleted topic."""
        self._next.pop(topic, None)

    def forget_all(self) -> None:
        """Reset all offsets to the ends of their queues after a truncation of the log."""
        self._next = {}

    # -- light queues --

    def number(self, message: BrokerMessage, given: list[MultiQueue]) -> list[MultiQueue] | None:
        """Assign the offsets of a message in its light queues and store them in its properties. Return them, or None if
        it has no light queues.

        Also adds them to `given`, so that the caller can release them.
        """
        names = message.light_queues
        if names is None:
            return None
        queues: list[MultiQueue] = []
        for name in names:
            queue = MultiQueue(name, self.take(name, LMQ_QUEUE_ID))
            queues.append(queue)
            given.append(queue)
        message.encoded_properties = with_offsets(message.encoded_properties, queues)
        return queues

    def free(self, queues: list[MultiQueue]) -> None:
        """Release the offsets of light queues. Pass them in the order in which they were assigned."""
        for queue in reversed(queues):
            self.give_back(queue.topic, LMQ_QUEUE_ID, queue.queue_offset)
