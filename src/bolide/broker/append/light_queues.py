"""LMQ multi-dispatch in the append path: determines the light queues of a message and rejects invalid lists.

A producer lists them in INNER_MULTI_DISPATCH; the store assigns an offset in each (RocketMQ's LmqDispatch). A message
that is still pending in another topic enters no light queue. Only the store sets the offsets.
"""

from __future__ import annotations

from typing import Final, final

from bolide.broker.found import check_each
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import Refused
from bolide.dispatch.multi import fits_a_folder, split_names, topic_allows_lmq
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.names import DLQ_PREFIX, HALF_TOPIC, LMQ_PREFIX, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from bolide.layout.property_names import INNER_MULTI_QUEUE_OFFSET
from bolide.remoting.codes import LMQ_QUOTA_EXCEEDED, MESSAGE_ILLEGAL
from bolide.remoting.command import Command
from bolide.store.message_store import MessageStore

MAX_LIGHT_QUEUES: Final = 1024
"""Maximum number of light queues of one message: the limit of its properties for short names and long offsets."""
_NOT_YET: Final = frozenset({HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC})


def light_queues(topic: str, listed: str) -> list[str] | None:
    """Return the light queues that a message of this topic enters, or None.

    Half messages enter them at commit; dead letters entered them with their original topic. (Java accepts both, a half
    message before its outcome is known.)
    """
    if not topic_allows_lmq(topic) or topic in _NOT_YET or topic.startswith(DLQ_PREFIX):
        return None
    names = split_names(listed)
    return names if names and refusal(topic, names) == "" else None


def refusal(topic: str, names: list[str]) -> str:
    """Return why this list is invalid for a message to this topic, or "" if it is valid."""
    if len(names) > MAX_LIGHT_QUEUES:
        return f"INNER_MULTI_DISPATCH lists {len(names)} queues, {MAX_LIGHT_QUEUES} are allowed"
    seen: set[str] = set()
    for name in names:
        if not fits_a_folder(name):
            return (
                f"INNER_MULTI_DISPATCH lists {name[:40]!r}: light queues are called {LMQ_PREFIX}… with no / and at"
                " most 255 bytes, separated by commas"
            )
        if name in seen or name == topic:
            return f"INNER_MULTI_DISPATCH lists {name[:40]!r} twice, or it is the topic itself: name each queue once"
        seen.add(name)
    return ""


def enter_light_queues(message: BrokerMessage) -> None:
    """Set the light queues of a message, and remove their offsets from its properties.

    Such offsets belong to an earlier record of the message, or were set by a client.
    """
    properties = message.properties
    if properties.multi_offsets:
        properties.drop(INNER_MULTI_QUEUE_OFFSET)
        message.encoded_properties = b""
    message.light_queues = light_queues(message.topic, properties.multi)


@final
class LightQueueGate:
    """Validates the light queues (LMQ) that a producer lists in INNER_MULTI_DISPATCH."""

    def __init__(self, options: BrokerOptions, store: MessageStore) -> None:
        self._store: MessageStore = store
        self._on: bool = store.shape.multi_dispatch
        self._most: int = 0
        self.configure(options)

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        light_queues = options.light_queues
        limited = light_queues.enable_lmq_quota
        self._most = light_queues.max_lmq_consume_queue_num if limited else options.tables.max_topics

    def check(self, command: Command, topic: str, listed: str) -> None:
        """Raise `Refused` 13 for an invalid list, 2017 if it exceeds the limit of light queues, and the authorizer's
        code for a queue without permission. A list without effect is accepted."""
        if not self._on or not topic_allows_lmq(topic):
            return
        names = split_names(listed)
        why = refusal(topic, names)
        if why:
            raise Refused(MESSAGE_ILLEGAL, why)
        check_each(command, names)
        self.room(names)

    def room(self, names: list[str]) -> None:
        """Raise `Refused` 2017 if the LMQ limit is reached and one of these queues does not exist yet."""
        queues = self._store.queues
        if queues.light_count < self._most:
            return
        for name in names:
            if queues.get(name, 0) is None:
                raise Refused(
                    LMQ_QUOTA_EXCEEDED,
                    f"[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]the light queue {name[:40]!r} exceeds the limit: "
                    f"{queues.light_count} exist, maxLmqConsumeQueueNum or maxTopics allows {self._most}",
                )
