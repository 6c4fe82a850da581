"""Selects the listener of a message by its topic, or for a retry by its original topic."""

from __future__ import annotations

import logging
from typing import Final

from bolide.client.messages.listener import ListenerCall
from bolide.client.messages.namespace import without_namespace
from bolide.client.messages.received import ReceivedMessage, topics_of

log = logging.getLogger("bolide.client")


def _no_listener(message: ReceivedMessage) -> bool:
    log.warning("%r arrived after the consumer unsubscribed from its topic, it will be redelivered", message)
    return False


NOBODY: Final = ListenerCall(_no_listener)
"""Used while a consumer has no listener: every message fails and is redelivered."""


class Listeners:
    """The listeners of one push consumer, by topic without the `namespace`."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._calls: dict[str, ListenerCall] = {}

    def add(self, topic: str, call: ListenerCall) -> None:
        """Set the listener of a topic."""
        self._calls[topic] = call

    def get(self, topic: str) -> ListenerCall | None:
        """Return the listener of a topic, or None."""
        return self._calls.get(topic)

    def remove(self, topic: str, call: ListenerCall | None) -> None:
        """Remove the listener of a topic, unless it is no longer `call`."""
        if call is not None and self._calls.get(topic) is call:
            del self._calls[topic]

    def of(self, message: ReceivedMessage) -> ListenerCall:
        """Return the listener of a message."""
        topic = message.topic
        call = self._calls.get(topic) if message.record.topic == topic else None
        if call is not None:  # neither a retry, nor from a light queue, nor in a namespace
            return call
        for topic in topics_of(message):
            call = call or self._calls.get(without_namespace(self._namespace, topic))
        if call is None:  # a retry of a topic that is no longer subscribed: any listener, as in Java
            call = next(iter(self._calls.values()), NOBODY)
        return call

    def of_all(self, messages: list[ReceivedMessage]) -> ListenerCall | None:
        """Return the common listener of these messages, or None if they have different listeners."""
        topic = messages[0].topic
        call = self._calls.get(topic)
        if call is None or [one for one in messages if one.topic != topic or one.record.topic != topic]:
            call = self.of(messages[0])
            if any(self.of(message) is not call for message in messages[1:]):
                return None
        return call
