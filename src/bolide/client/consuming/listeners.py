"""Which listener gets a message: by its topic, or for a retry by the topic that it was sent to."""

from __future__ import annotations

from bolide.client.messages.listener import ListenerCall
from bolide.client.messages.namespace import without_namespace
from bolide.client.messages.received import ReceivedMessage, topics_of


class Listeners:
    """The listeners of one push consumer, by topic without the `namespace`."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._calls: dict[str, ListenerCall] = {}

    def add(self, topic: str, call: ListenerCall) -> None:
        """Set the listener of a topic."""
        self._calls[topic] = call

    def remove(self, topic: str) -> None:
        """Remove the listener of a topic, if it has one."""
        self._calls.pop(topic, None)

    def of(self, message: ReceivedMessage) -> ListenerCall:
        """The listener of a message."""
        topic = message.topic
        call = self._calls.get(topic) if message.record.topic == topic else None
        if call is not None:  # neither a retry, nor read from a light queue, nor in a namespace
            return call
        for topic in topics_of(message):
            call = call or self._calls.get(without_namespace(self._namespace, topic))
        if call is None:  # a retry of a topic that is not subscribed any more: any listener, as in Java
            call = next(iter(self._calls.values()))
        return call

    def of_all(self, messages: list[ReceivedMessage]) -> ListenerCall | None:
        """The listener of all these messages; None where they have several."""
        topic = messages[0].topic
        call = self._calls.get(topic)
        if call is None or [one for one in messages if one.topic != topic or one.record.topic != topic]:
            call = self.of(messages[0])
            if any(self.of(message) is not call for message in messages[1:]):
                return None
        return call
