"""Checks the names of topics and groups, and lists the topics that clients may not send to.

From RocketMQ's TopicValidator, MixAll and NamespaceUtil; limits and sets in docs/protocol/behaviour.md 2, 2.1 and 6.4.
The names themselves are in `layout.names`.
"""

from __future__ import annotations

from typing import Final

from bolide.layout.limits import MAX_GROUP_LENGTH, MAX_LONG_TOPIC_LENGTH, MAX_TOPIC_LENGTH
from bolide.layout.names import (
    DLQ_PREFIX,
    HALF_TOPIC,
    OFFSET_MOVED_EVENT,
    OP_HALF_TOPIC,
    RETRY_PREFIX,
    ROCKSDB_TOPICS,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_GROUP_PREFIX,
    SYSTEM_TOPIC_PREFIX,
    TIMER_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
)

NO_SEND_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
        TIMER_TOPIC,
        *ROCKSDB_TOPICS,
    }
)
"""Topics that clients may not send to (TopicValidator's NOT_ALLOWED_SEND_TOPIC_SET): the response is code 16.

The timer topic is an addition of Bolide. Java allows sends to it, although such a message could name any topic, queue
or half message.
"""

NO_LITE_TOPICS: Final = "lite topics are not served: leave out liteTopic, and name a light queue (LMQ) as the topic"


_ALLOWED: Final = frozenset("%|-_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


def topic_refusal(topic: str) -> str | None:
    """Return why this is not a valid topic name, or None if it is valid."""
    if not topic.strip():
        return "The specified topic is blank."
    if not _ALLOWED.issuperset(topic):
        return f"The specified topic: {printable(topic)}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        if len(topic) > MAX_LONG_TOPIC_LENGTH:
            what = f"The specified topic is DLQ or Retry topic: {printable(topic)}"
            return f"{what}, and it's longer than topic max length: {MAX_LONG_TOPIC_LENGTH}"
    elif len(topic) > MAX_TOPIC_LENGTH:
        return f"The specified topic: {printable(topic)}, is longer than topic max length: {MAX_TOPIC_LENGTH}"
    return None


def group_refusal(group: str) -> str | None:
    """Return why this is not a valid group name, or None if it is valid."""
    if not group.strip():
        return "The specified group is blank."
    if not _ALLOWED.issuperset(group):
        return f"The specified group: {printable(group)}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    if len(group) > MAX_GROUP_LENGTH:
        return f"The specified group: {printable(group)}, is longer than group max length: {MAX_GROUP_LENGTH}"
    return None


def printable(text: str) -> str:
    """Return a peer's text, escaped and shortened for a log line or a remark."""
    return text[:64].encode("unicode_escape").decode("ascii")


def retry_topic(group: str) -> str:
    """Return the topic from which failed messages are redelivered to a group."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Return the topic of messages that a group permanently failed to consume."""
    return DLQ_PREFIX + group


def is_system_group(group: str) -> bool:
    """Return whether a group may be created even if groups are not created automatically.

    The offsets of such groups are the broker's own progress. Clients cannot change them.
    """
    return group.startswith(SYSTEM_GROUP_PREFIX)


def is_internal_topic(topic: str) -> bool:
    """Return whether only the broker writes messages of this topic. Producers may not send to it."""
    return topic in NO_SEND_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)
