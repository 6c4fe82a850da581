"""Names the broker gives a meaning: system topics, prefixes, and what a topic or group name may look like.

From RocketMQ's TopicValidator, MixAll and NamespaceUtil; limits and sets in docs/protocol/behaviour.md 2, 2.1 and 6.4.
"""

from __future__ import annotations

from typing import Final

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
LMQ_PREFIX: Final = "%LMQ%"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"

AUTO_CREATE_TOPIC_KEY: Final = "TBW102"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_EVENT: Final = "OFFSET_MOVED_EVENT"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
ROCKSDB_TOPICS: Final = ("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC")
"""5.5.0 has them whether or not it keeps transactions in RocksDB."""

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

SYSTEM_TOPICS: Final = frozenset(
    {
        AUTO_CREATE_TOPIC_KEY,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        TRACE_TOPIC,
        OP_HALF_TOPIC,
        *ROCKSDB_TOPICS,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
        "CHECKPOINT_TOPIC",
    }
)
"""The broker's own whether or not it has them (TopicValidator's SYSTEM_TOPIC_SET); each start adds those it makes."""

FIRST_GROUPS: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)
"""Consumer groups every broker has from its first start (SubscriptionGroupManager.init)."""

TOPIC_MAX_LENGTH: Final = 127
LONG_TOPIC_MAX_LENGTH: Final = 255
"""For %RETRY% and %DLQ% topics, whose names carry a group name."""
GROUP_MAX_LENGTH: Final = 120

_ALLOWED: Final = frozenset("%|-_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


def topic_refusal(topic: str) -> str | None:
    """Why this is no topic name, as one sentence, or None when it is fine."""
    if not topic.strip():
        return "The specified topic is blank."
    if not _ALLOWED.issuperset(topic):
        return f"The specified topic: {printable(topic)}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        if len(topic) > LONG_TOPIC_MAX_LENGTH:
            what = f"The specified topic is DLQ or Retry topic: {printable(topic)}"
            return f"{what}, and it's longer than topic max length: {LONG_TOPIC_MAX_LENGTH}"
    elif len(topic) > TOPIC_MAX_LENGTH:
        return f"The specified topic: {printable(topic)}, is longer than topic max length: {TOPIC_MAX_LENGTH}"
    return None


def group_refusal(group: str) -> str | None:
    """Why this is no group name, as one sentence, or None when it is fine."""
    if not group.strip():
        return "The specified group is blank."
    if not _ALLOWED.issuperset(group):
        return f"The specified group: {printable(group)}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    if len(group) > GROUP_MAX_LENGTH:
        return f"The specified group: {printable(group)}, is longer than group max length: {GROUP_MAX_LENGTH}"
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
