"""Unreplicated topics: a slave has their messages, but has not received them from its master.

A slave copies its master's topics periodically, and may have the records of a new topic earlier. It infers such a topic
from its queues, so that the messages are served, and are kept when this broker becomes master and the old one its
slave. Java's promoted slave lacks the topic. After the next copy, the topic is as on the master, or is removed.

A delayed or half message names its topic only when it is delivered, perhaps by the next master. A former slave then
also infers such a topic, unless it knows that the topic was deleted. Until the topic is configured, each such message
may also show that it has more queues. This state survives a restart and is copied to slaves: topics.json and the
response to them contain the inferred topics.

`config/followedTopics.json` records that the store belonged to a slave, so that a start as master also looks for such
topics. A store that always belonged to a master relies on its own table.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from typing import Any, Final

from bolide.broker.core.effects import Effects
from bolide.broker.core.role import Role
from bolide.broker.core.service import Table
from bolide.broker.tables.topics import TopicTable
from bolide.dispatch.multi import is_lmq
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.json import parse_long
from bolide.store.message_store import MessageStore

LOOK_MS: Final = 1000


class UntoldTopics(Table):
    """Infers topics. Does nothing on a broker that has always been a master."""

    def __init__(
        self, store: MessageStore, topics: TopicTable, role: Role, effects: Effects, log: logging.Logger
    ) -> None:
        super().__init__("followedTopics")
        self._store = store
        self._topics = topics
        self._role = role
        self._effects = effects
        self._log = log
        self._next = 0
        self._following = False
        """Whether the store belongs to a slave, or belonged to one and has not been scanned since."""
        self._was_slave = False
        """Whether the store has ever belonged to a slave."""
        self._until = -1
        """On a master: end of the part of the log that another broker wrote."""
        self._no_room: set[str] = set()

    def due(self, now: int) -> int | None:
        return self._next if self._was_slave or not self._role.may_write else None

    def tick(self, now: int, budget: int) -> None:
        if self.due(now) is None:
            return
        self._next = now + LOOK_MS
        if self._role.may_write and not self._following:
            self._learn(now, self._store.queues.deleted.marks)
            return
        self._learn(now)
        if not self._role.may_write:
            self._until = -1
            self._mark(True)
            return
        if self._until < 0:
            self._until = int(self._store.end_offset)
        if int(self._store.dispatched_offset) >= self._until and self._topics.untold_saved():
            self._mark(False)  # after a crash before this, the next start scans again

    def role_changed(self, role: Role, now: int) -> None:
        self._next = now
        if role.may_write:
            self._mark(True)
            self.tick(now, 0)  # before any client or slave is served, because they also receive the topics

    def _learn(self, now: int, deleted: Container[str] = ()) -> None:
        for topic in self._store.topics_in_queues():
            if topic in self._topics.table and topic not in self._topics.guessed:
                continue
            # A message that was delayed before the deletion may be delivered after it. It does not restore the topic.
            if topic in deleted and topic not in self._topics.table:
                continue
            denied = self._topics.denied.get(topic, -1)
            if denied >= 0 and not self._store.has_messages_after(topic, denied):
                continue
            if self._topics.is_system(topic) or is_lmq(topic):
                continue
            if topic in self._no_room and topic not in self._topics.table:
                continue
            queues = self._store.queue_ids(topic)
            if not queues:
                continue
            if self._topics.learn(topic, queues[-1] + 1, now):
                self._log.info("topic %s is known by its messages only: it has %d queues", topic, queues[-1] + 1)
            elif topic not in self._topics.table:
                self._no_room.add(topic)
                self._log.warning("topic %s has messages, but exceeds the limit: raise maxTopics", topic)

    def _mark(self, following: bool) -> None:
        if following != self._following:
            self._following = following
            self._was_slave = True
            self._effects.persist(self.persist_name)

    def encode(self) -> bytes:
        """Encode the file. Return b"" on a broker that has never been a slave."""
        if not self._was_slave:
            return b""
        return encode_body({"following": self._following})

    def load(self, data: bytes) -> None:
        stored: Any = parse_long(data)
        self._following = bool(stored.get("following"))
        self._was_slave = True
