"""Matches a delete with the timer message that it names.

A delete contains the unique key of a message in TIMER_DEL_UNIQKEY, after its topic if appendTopicForTimerDeleteKey is
on. RocketMQ compares only this key, so a user who may send to one topic could delete the messages of all others. With
authorization, the delete must also be sent to the topic of the message.
"""

from __future__ import annotations

from typing import final

from bolide.broker.delay.recall import delete_key
from bolide.broker.options.composed import BrokerOptions
from bolide.layout import property_names as names
from bolide.layout.message_properties import MessageProperties


@final
class DeleteKeys:
    """Computes a text for a message, and the same text for a delete that names the message."""

    def __init__(self, options: BrokerOptions) -> None:
        access = options.access
        self._with_topic: bool = options.delay.append_topic_for_timer_delete_key
        self._own_topic: bool = access.authorization_enabled or (access.acl_enable and access.authorization_strict)

    def of_message(self, properties: MessageProperties) -> str:
        """Return the text of a message in the timer topic, or "" if it has no unique key and cannot be deleted."""
        unique = properties.get(names.UNIQ_KEY) or ""
        topic = properties.get(names.REAL_TOPIC) or ""
        return self._of(topic, delete_key(topic, unique, self._with_topic)) if unique else ""

    def of_delete(self, properties: MessageProperties) -> str:
        """Return the text of the message that a delete in the timer topic names."""
        return self._of(properties.get(names.REAL_TOPIC) or "", properties.get(names.TIMER_DEL_UNIQKEY) or "")

    def _of(self, topic: str, key: str) -> str:
        return f"{topic}\0{key}" if self._own_topic else key
