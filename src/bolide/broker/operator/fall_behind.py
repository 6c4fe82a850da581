"""Lag of the pulls of a group: GROUP_GET_FALL_SIZE and GROUP_GET_FALL_TIME of RocketMQ's BrokerStatsManager.

RocketMQ stores both at each pull and logs them every five minutes. Here they are computed from the pull offset on
request, so pulls have no cost, and the lag of a group that stops pulling is visible.
"""

from __future__ import annotations

from typing import Final

from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.store.message_store import MessageStore

SIZE: Final = "GROUP_GET_FALL_SIZE"
"""Bytes of the log from the last message pulled to the end."""
TIME: Final = "GROUP_GET_FALL_TIME"
"""Age of the last message pulled, in ms."""


class FallBehind:
    """Computes both values of a queue. They are 0 for a group that has pulled all messages."""

    def __init__(self, store: MessageStore, offsets: ConsumerOffsets) -> None:
        self._store = store
        self._offsets = offsets

    def has_pulled(self, key: str) -> bool:
        """Return whether the group of `queueId@topic@group` has pulled from that queue."""
        return self._pulled(key) is not None

    def _pulled(self, key: str) -> tuple[str, int, int] | None:
        """Return topic, queue and pull offset of `queueId@topic@group`, or None if the group has not pulled."""
        queue, _, rest = key.partition("@")
        topic, _, group = rest.rpartition("@")
        if not queue.isascii() or not queue.isdigit() or len(queue) > 9:
            return None
        pulled = self._offsets.pulled(group, topic, int(queue))
        return (topic, int(queue), pulled) if pulled >= 0 else None

    def value(self, name: str, key: str, now: int) -> int | None:
        """Return a value for `queueId@topic@group`, or None if the group has not pulled from that queue. May read the
        disk."""
        found = self._pulled(key) if name in (SIZE, TIME) else None
        if found is None:
            return None
        topic, queue_id, pulled = found
        if pulled >= self._store.max_queue_offset(topic, queue_id):
            return 0
        last = max(pulled - 1, self._store.min_queue_offset(topic, queue_id))
        if name == TIME:
            stored = self._store.store_time_at(topic, queue_id, last)
            return max(int(self._store.times.wall(now)) - stored, 0) if stored >= 0 else None
        for physical_offset, _size, _code in self._store.units(topic, queue_id, last, 1):
            return max(int(self._store.end_offset) - int(physical_offset), 0)
        return None
