"""Removes unused groups that a client's first heartbeat or pull created.

Java keeps them until an operator deletes them. Here a group is removed after `unusedGroupExpireTime` without a member,
if it has no offsets, its retry topic has no messages, and its settings were never changed. The next heartbeat creates
the group again.
"""

from __future__ import annotations

from typing import Final

from bolide.broker.core.names import dlq_topic, retry_topic
from bolide.broker.core.service import Service
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.tables.clients import Clients
from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.broker.tables.groups import GroupTable
from bolide.broker.tables.topics import TopicTable
from bolide.store.message_store import MessageStore

LOOK_INTERVAL_MS: Final = 60_000


class GroupExpiry(Service):
    """Checks groups that clients created, in batches."""

    def __init__(
        self,
        options: BrokerOptions,
        store: MessageStore,
        groups: GroupTable,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        clients: Clients,
        now: int,
    ) -> None:
        self._store = store
        self._groups = groups
        self._topics = topics
        self._offsets = offsets
        self._clients = clients
        self._expire_ms = options.tables.unused_group_expire_time
        self._idle: dict[str, int] = {}
        """Time of last use by group."""
        self._left: list[str] = []
        self._next = now + LOOK_INTERVAL_MS

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._expire_ms = options.tables.unused_group_expire_time

    def due(self, now: int) -> int | None:
        return self._next

    def tick(self, now: int, budget: int) -> None:
        """Check at most `budget` groups. The next ticks check the rest."""
        if not self._left:
            made = self._groups.made_by_use
            self._left = sorted(made)
            self._idle = {name: since for name, since in self._idle.items() if name in made}
        for _ in range(min(budget, len(self._left))):
            self._look(self._left.pop(), now)
        self._next = now if self._left else now + LOOK_INTERVAL_MS

    def _look(self, name: str, now: int) -> None:
        if self._used(name):
            self._idle.pop(name, None)
        elif now - self._idle.setdefault(name, now) >= self._expire_ms > 0:
            del self._idle[name]
            self._groups.delete(name, now)
            self._topics.delete(retry_topic(name), now)

    def _used(self, name: str) -> bool:
        if name not in self._groups.made_by_use or self._clients.consumer_group(name) is not None:
            return True
        if self._offsets.has_group(name) or name in self._groups.forbidden:
            return True
        retry = self._topics.get(retry_topic(name))
        queues = range(0 if retry is None else retry.write_queue_nums)
        return self._topics.get(dlq_topic(name)) is not None or any(
            self._store.max_queue_offset(retry_topic(name), queue_id) > 0 for queue_id in queues
        )
