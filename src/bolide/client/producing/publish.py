"""Selects the queue of a message: round robin, or by a key, among the writable queues of a topic's route.

State is separate from I/O: `TopicQueues` selects queues of a `TopicRoute`, and `PublishRoutes` requests routes. A retry
prefers a broker other than the failed one (RocketMQ's TopicPublishInfo.selectOneMessageQueue).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final

from bolide.client.instance.routes import TopicRoute
from bolide.client.messages.arguments import shown
from bolide.client.messages.errors import MessageRefused, NoQueue, TopicNotFound
from bolide.client.messages.light_queues import is_lmq
from bolide.client.messages.message import Message
from bolide.client.messages.namespace import with_namespace
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.user_code import raise_interruption
from bolide.errors import caused
from bolide.layout.hashes import java_hash
from bolide.layout.names import AUTO_CREATE_TOPIC
from bolide.world.contract import World
from bolide.world.real import THE_WORLD

if TYPE_CHECKING:
    from bolide.client.instance.instance import ClientInstance

QueueChoice = MessageQueue | Callable[[list[MessageQueue], Message], MessageQueue]
"""A queue, or a function that selects one of the given queues."""

KNOWN_KEYS: Final = 100_000
_CHECK: Final = "check its permission, and whether its brokers run"


class TopicQueues:
    """The writable queues of one topic, with the position of the round robin."""

    def __init__(self, route: TopicRoute, world: World = THE_WORLD) -> None:
        self.route = route
        self.queues = route.write_queues()
        self._next = world.random.randrange(len(self.queues)) if self.queues else 0
        self._by_key: dict[str, MessageQueue] = {}
        self.used = True
        """Whether a message was sent to the topic since its route was last missing."""

    def next_queue(self, avoid_broker: str = "", faulty: Collection[str] = ()) -> MessageQueue:
        """Return the next queue, if possible not on `avoid_broker` or one of the `faulty` brokers.

        If all other brokers are faulty, only `avoid_broker` is avoided. Raises `NoQueue` if no queue is writable.
        """
        queues = self.queues
        count = len(queues)
        if not count:
            raise NoQueue(f"topic {self.route.topic} has no writable queue on a broker with a master: {_CHECK}")
        self._next = start = self._next + 1
        if not avoid_broker and not faulty:
            return queues[start % count]
        for avoided in [{avoid_broker, *faulty}, {avoid_broker}] if faulty else [{avoid_broker}]:
            for step in range(count):
                queue = queues[(start + step) % count]
                if queue.broker_name not in avoided:
                    self._next = start + step
                    return queue
        return queues[start % count]

    def queue_for(self, sharding_key: str) -> MessageQueue:
        """Return the queue of a key, like Java's SelectMessageQueueByHash. Raises `NoQueue` if no queue is writable."""
        queue = self._by_key.get(sharding_key)
        if queue is None:
            if not self.queues:
                raise NoQueue(f"topic {self.route.topic} has no writable queue on a broker with a master: {_CHECK}")
            if len(self._by_key) >= KNOWN_KEYS:
                self._by_key.clear()
            index = abs(int(math.fmod(java_hash(sharding_key), len(self.queues))))
            queue = self._by_key[sharding_key] = self.queues[index]
        return queue


class PublishRoutes:
    """The topics of a producer. A topic that does not exist yet gets the queues of the template topic."""

    def __init__(self, queue_count: int) -> None:
        self.queue_count = queue_count
        """Number of queues of a topic that is created by sending to it."""
        self._topics: dict[str, TopicQueues] = {}
        self._seen: set[str] = set()

    def topics(self) -> set[str]:
        """Return the topics sent to so far."""
        return set(self._topics)

    def known(self, instance: ClientInstance, topic: str) -> TopicQueues | None:
        """Return the queues of a topic by its cached route, or None if the route must be loaded first."""
        known = self._topics.get(topic)
        route = instance.routes.get(topic)
        if known is not None and (route is known.route or (route is None and known.route.topic == topic)):
            known.used = True
            return known
        if route is None:
            return None
        return self._entered(instance, topic, route)

    def seen(self, topic: str) -> bool:
        """Return whether the topic had a route before, so that a missing route may be temporary."""
        return topic in self._seen

    def _entered(self, instance: ClientInstance, topic: str, route: TopicRoute) -> TopicQueues:
        known = self._topics[topic] = TopicQueues(route, instance.world)
        if len(self._seen) >= KNOWN_KEYS:
            self._seen.clear()
        self._seen.add(topic)
        return known

    def forget(self, instance: ClientInstance, topic: str) -> None:
        """Discard an outdated route: the next try requests it from a name server."""
        self._topics.pop(topic, None)
        instance.routes.pop(topic, None)

    def missing(self, topic: str) -> None:
        """Called when no name server has the topic. Discard it if it was not used since the last call.

        Otherwise a producer would always request each topic it has ever sent to. A used topic is not discarded, because
        a name server that has just started has no routes yet.
        """
        known = self._topics.get(topic)
        if known is not None and not known.used:
            del self._topics[topic]
            self._seen.discard(topic)
        elif known is not None:
            known.used = False

    async def load(self, instance: ClientInstance, topic: str) -> TopicQueues:
        """Request the route of a topic, or the template's if the topic does not exist yet. Raises `TopicNotFound`."""
        known = self.known(instance, topic)
        if known is not None:
            return known
        try:
            route = await instance.fetch_route(topic)
        except TopicNotFound as error:
            missing = error
        else:
            return self._entered(instance, topic, route)
        try:
            template = await instance.fetch_route(AUTO_CREATE_TOPIC)
        except TopicNotFound:
            raise caused(missing, None) from None
        # A light queue (LMQ) is a topic without a route, with one queue.
        route = template.from_template(topic, 1 if is_lmq(topic) else self.queue_count)
        return self._entered(instance, topic, route)


def bound_queue(choice: QueueChoice, queues: TopicQueues, message: Message, topic: str, namespace: str) -> MessageQueue:
    """Return the queue that the user gave, or that the user's function selects. Raises `MessageRefused`."""
    given: Any = choice
    if callable(given):
        try:
            given = given(list(queues.queues), message)
        except BaseException as error:
            raise_interruption(error)
            refused = MessageRefused(
                f"the function that picks the queue of a message to {topic} failed: {error!r}", "queue"
            )
            raise caused(refused, error) from error
    picked: object = given
    if not isinstance(picked, MessageQueue):
        raise MessageRefused(
            f"the queue of a message to {topic} is {shown(picked)}, give a MessageQueue or a function that picks one",
            "queue",
        )
    if picked.topic == topic:
        return picked
    if with_namespace(namespace, picked.topic) != topic:
        raise MessageRefused(f"a message to {topic} cannot be sent to {picked}: give a queue of its topic", "queue")
    return MessageQueue(topic, picked.broker_name, given.queue_id)
