"""Flow control of a consumer: a queue is not pulled while too much of it is cached. Logs a warning as RocketMQ's client
does ("the cached message count exceeds the threshold", DefaultMQPushConsumerImpl.pullMessage).

Java checks every 50 ms and logs every 1000th time, so it repeats its warning about a full queue after 50 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Final

from bolide.client.consuming.process_queue import ProcessQueue
from bolide.client.messages.namespace import without_namespace
from bolide.client.messages.queue import MessageQueue

log = logging.getLogger("bolide.client")

WARN_EVERY: Final = 50.0


class QueueRoom:
    """Waits for room in the queues of one consumer. Logs each limit at most once in `warn_every` seconds."""

    def __init__(self, group: str, warn_every: float = WARN_EVERY) -> None:
        self._group = group
        self._warn_every = warn_every
        self._quiet_until: dict[str, float] = {}
        self._times: dict[str, int] = {}

    async def wait_for_room(self, process_queue: ProcessQueue) -> None:
        """Wait until the queue may be pulled again, or is dropped."""
        while not process_queue.has_room:
            self._warn(process_queue, process_queue.limit_reached())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._warn_every):
                    await process_queue.wait_for_room()

    def _warn(self, process_queue: ProcessQueue, limit: str) -> None:
        times = self._times[limit] = self._times.get(limit, 0) + 1
        now = asyncio.get_running_loop().time()
        if now < self._quiet_until.get(limit, now):
            return
        self._quiet_until[limit] = now + self._warn_every
        first, last = process_queue.offsets
        log.warning(
            "group %s pauses pulls of %s: %s is reached (%d messages, %d bytes, offsets %d to %d), %d times so far;"
            " pulls continue after messages of the queue are consumed",
            self._group,
            process_queue.queue,
            process_queue.show_limit(limit),
            process_queue.cached_count,
            process_queue.cached_bytes,
            first,
            last,
            times,
        )


class CachedMessages:
    """Messages pulled but not yet consumed, by topic without the namespace. Thread-safe."""

    def __init__(self, owned: Mapping[MessageQueue, ProcessQueue], namespace: str) -> None:
        """Create the view of `owned`, the live mapping of the held queues."""
        self._owned = owned
        self._namespace = namespace

    def __call__(self) -> dict[str, tuple[int, int]]:
        """Return the number of messages and the size of their bodies in bytes, by topic."""
        found: dict[str, tuple[int, int]] = {}
        for topic, each in self._by_topic():
            count, size = found.get(topic, (0, 0))
            found[topic] = (count + each.cached_count, size + each.cached_bytes)
        return found

    def paused(self) -> dict[str, int]:
        """Return the number of queues of each topic that flow control pauses now."""
        found: dict[str, int] = {}
        for topic, each in self._by_topic():
            found[topic] = found.get(topic, 0) + (not each.has_room)
        return found

    def _by_topic(self) -> list[tuple[str, ProcessQueue]]:
        return [(without_namespace(self._namespace, each.queue.topic), each) for each in list(self._owned.values())]
