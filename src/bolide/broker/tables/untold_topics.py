"""Topics that a slave has messages of, and that its master has not told it of.

A slave asks for its master's topics from time to time, and has the records of a young topic sooner. It makes such a
topic of the queues that it has, so that the messages are served, and stay when this broker becomes master and the old
one follows it. Java's promoted slave does not know the topic. Once the master is asked, the topic is as the master has
it, or is gone.

A message that waits for its time or for its transaction names its topic only when it is delivered, by the next master
perhaps: one that was a slave once makes such a topic then, too, unless it knows that the topic was deleted. Until
somebody sets the topic, each such message may also show that it has more queues. This survives a restart and is told
to slaves: topics.json and the answer to them have the topics that were guessed.

`config/followedTopics.json` says that the store was a slave's, so that a start as master looks for such topics, too. A
store that always was a master's keeps to its own table.
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
    """Nothing on a broker that has always been a master."""

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
        """The store is a slave's, or was one's and is not looked through yet."""
        self._was_slave = False
        """The store was a slave's at some time."""
        self._until = -1
        """Of a master: what the log had up to here came from another one."""
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
            self._mark(False)  # a crash before has the next start look once more

    def role_changed(self, role: Role, now: int) -> None:
        self._next = now
        if role.may_write:
            self._mark(True)
            self.tick(now, 0)  # before anyone is served: clients and slaves are told of them, too

    def _learn(self, now: int, deleted: Container[str] = ()) -> None:
        for topic in self._store.topics_in_queues():
            if topic in self._topics.table and topic not in self._topics.guessed:
                continue
            # A delayed message of before the deletion may come after it: its queue is no topic.
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
        """The file; none on a broker that never followed."""
        if not self._was_slave:
            return b""
        return encode_body({"following": self._following})

    def load(self, data: bytes) -> None:
        stored: Any = parse_long(data)
        self._following = bool(stored.get("following"))
        self._was_slave = True
