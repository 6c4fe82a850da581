"""Which topic and group names a broker accepts, and which topics clients may not send to.

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
"""Topics a client may not send to (TopicValidator's NOT_ALLOWED_SEND_TOPIC_SET): answered with 16.

The timer's is ours, Java leaves it open: a message sent there could name any topic, queue or half message.
"""

NO_LITE_TOPICS: Final = "lite topics are not served: leave out liteTopic, and name a light queue (LMQ) as the topic"


_ALLOWED: Final = frozenset("%|-_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


def topic_refusal(topic: str) -> str | None:
    """Why this is no topic name, as one sentence, or None when it is fine."""
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
    """Why this is no group name, as one sentence, or None when it is fine."""
    if not group.strip():
        return "The specified group is blank."
    if not _ALLOWED.issuperset(group):
        return f"The specified group: {printable(group)}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    if len(group) > MAX_GROUP_LENGTH:
        return f"The specified group: {printable(group)}, is longer than group max length: {MAX_GROUP_LENGTH}"
    return None


def printable(text: str) -> str:
    """A peer's text, made safe and short for a log line or a remark."""
    return text[:64].encode("unicode_escape").decode("ascii")


def retry_topic(group: str) -> str:
    """Topic from which a group is given its failed messages again."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Topic that keeps what a group failed to consume for good."""
    return DLQ_PREFIX + group


def is_system_group(group: str) -> bool:
    """True for groups that may be created even when groups are not created automatically.

    Their offsets are the broker's own progress: nobody else moves them.
    """
    return group.startswith(SYSTEM_GROUP_PREFIX)


def is_internal_topic(topic: str) -> bool:
    """True for topics whose messages the broker writes for itself: no message of a producer belongs there."""
    return topic in NO_SEND_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)
