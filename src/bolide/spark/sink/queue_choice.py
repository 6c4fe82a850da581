"""Chooses the queues of messages by key, by number or in turn, and a different queue for a repeated request."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

import numpy as np

from bolide.errors import BolideError
from bolide.spark.errors import ClusterUnavailable, TopicMissing
from bolide.spark.sink.bundles import Bundle
from bolide.spark.sink.elements import Bools, Elements, Ints
from bolide.spark.sink.messages import Refusal
from bolide.spark.sink.sink_options import SinkOptions
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.queues import Queue

ROUTE_S: Final = 2.0


class QueueChoice:
    """Chooses queues for a task."""

    def __init__(
        self,
        options: SinkOptions,
        cluster: Cluster,
        refused: Callable[[Refusal], None],
        pass_time: Callable[[], None],
    ) -> None:
        """Calls `refused` for each message without a queue, and `pass_time` before it refreshes a route."""
        self._options = options
        self._cluster = cluster
        self._refused = refused
        self._pass_time = pass_time
        self._known: dict[str, tuple[float, list[Queue]]] = {}
        self._turn = random.randrange(1 << 16)  # so that small tasks do not all start with the same queue
        self._unknown_until: float | None = None

    def following(self, queues: list[Queue]) -> Queue:
        """Return the next queue in turn."""
        self._turn += 1
        return queues[self._turn % len(queues)]

    def targets(self, elements: Elements) -> tuple[list[list[Queue]], Ints]:
        """Return groups of queues, and the group of each message.

        Messages of a group of several queues may go to any of them; then it is the only group. Otherwise the messages
        of one queue are one group, so that they keep their order. A group without queues contains the rejected
        messages. Raises `ClusterUnavailable` if no route is available.
        """
        numbers, hashes = elements.numbers, elements.hashes
        targets = np.zeros(len(elements), np.int64)
        free = np.ones(len(elements), np.bool_) if numbers is None else numbers < 0
        queues = self._queues(elements, None, free) if bool(free.any()) else []
        if numbers is None and hashes is None:
            return [queues], targets
        groups: list[list[Queue]] = [[], *([queue] for queue in queues)]
        if queues:
            targets[free] = 1 + self._places(elements, free)[free] % len(queues)
        for number in () if numbers is None else np.unique(numbers[~free]).tolist():
            named = numbers == number
            fitting = self._queues(elements, number, named)
            one = [fitting[self._turn % len(fitting)]] if fitting else []
            if one not in groups:
                groups.append(one)
            targets[named] = groups.index(one)
        return groups, targets

    def _places(self, elements: Elements, free: Bools) -> Ints:
        """Return one number per message, whose remainder selects the queue: the hash of the key, or, without a key,
        a number that increases after every `batchBytes`."""
        keyed = np.zeros(len(elements), np.bool_) if elements.hashes is None else elements.hashes >= 0
        sizes = np.where(free & ~keyed, np.diff(elements.ends()), 0)
        places: Ints = self._turn + 1 + np.cumsum(sizes) // self._options.batch_bytes
        self._turn = int(places[-1])
        # As Java's SelectMessageQueueByHash, which makes a negative remainder positive.
        return places if elements.hashes is None else np.where(keyed, elements.hashes, places)

    def _queues(self, elements: Elements, number: int | None, where: Bools) -> list[Queue]:
        """Return the writable queues for some messages, or reject the messages if there are none."""
        found = self._writable(elements.topic, number, int(elements.rows[where.argmax()]))
        if isinstance(found, list):
            return found
        reason, of_the_row = found
        for row in elements.rows[where].tolist():
            self._refused(elements.origin.refusal(row, elements.topic, reason, of_the_row=of_the_row))
        return []

    def _writable(self, topic: str, number: int | None, row: int) -> list[Queue] | tuple[str, bool]:
        """Return the writable queues of a topic, or the reason for a rejection and whether rows cause it.

        A name server removes a topic while its only broker restarts, so a task waits once for an unknown topic. While
        the master of a set with acting masters is down, no queue is writable, and rows wait for the master. Raises
        `ClusterUnavailable` with `row` in its text if that takes too long.
        """
        until, queues = self._known.get(topic, (0.0, []))
        begin = now = time.monotonic()
        known = now < until
        while True:
            try:
                if not known:
                    queues = self._cluster.queues([topic], writable=True)
                    self._known[topic] = now + ROUTE_S, queues
                fitting = queues if number is None else [queue for queue in queues if queue.queue_id == number]
                if fitting:
                    return fitting
                broker = self._cluster.closed(topic, number)
                if not broker and not queues:
                    return "the topic has no writable queue: check its permission", False
                if not broker:
                    return f"the topic has no writable queue {number}", True
                if now >= begin + self._options.patience:
                    raise ClusterUnavailable(
                        f"row {row} of this partition was not stored in topic {topic} within "
                        f"{self._options.patience:g} s: no master of broker {broker} is registered; start it, or raise "
                        "deliveryTimeoutMs"
                    )
                self._cluster.forget(topic)
            except TopicMissing:
                if self._unknown_until is None:
                    self._unknown_until = time.monotonic() + self._options.patience
                if time.monotonic() >= self._unknown_until:
                    return f"no name server knew the topic within {self._options.patience:g} s: create it", False
            self._pass_time()
            known, now = False, time.monotonic()

    def reroute(self, bundle: Bundle) -> None:
        """Choose another queue for failed messages, unless the row specifies one. Refreshes the route first."""
        if not bundle.tries:
            return
        try:
            self._cluster.relearn(bundle.queue.broker)
            queues = self._cluster.queues([bundle.queue.topic], writable=True)
        except BolideError:
            return  # the name server does not respond either: the known queue may still work
        if not queues or bundle.keyed:
            return  # a key keeps its queue, so that its messages keep their order
        others = [queue for queue in queues if queue.broker != bundle.queue.broker] or queues
        if bundle.numbered:
            others = [queue for queue in others if queue.queue_id == bundle.queue.queue_id] or [bundle.queue]
        self._turn += 1
        bundle.queue = others[self._turn % len(others)]
