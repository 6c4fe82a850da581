"""Names with a meaning in RocketMQ: prefixes, system topics and groups, and the id of a master.

Taken from RocketMQ's TopicValidator, MixAll and SubscriptionGroupManager; docs/protocol/behaviour.md 2 and 2.1 describe
their effect. No other file contains these names as literals.
"""

from __future__ import annotations

from typing import Final

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
LMQ_PREFIX: Final = "%LMQ%"
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
OLD_SYSTEM_TOPIC_PREFIX: Final = "RMQ_SYS_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"

AUTO_CREATE_TOPIC: Final = "TBW102"
"""The template of topics that are created implicitly."""
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_EVENT: Final = "OFFSET_MOVED_EVENT"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
"""The topic that holds message traces."""
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
ROCKSDB_TOPICS: Final = ("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC")
"""RocketMQ 5.5.0 has them whether or not it stores transactions in RocksDB."""
REVIVE_TOPIC_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
"""The name of a cluster follows."""
SYNC_MEMBER_TOPIC_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"
"""The name of a broker follows."""
REPLY_TOPIC_SUFFIX: Final = "_REPLY_TOPIC"
"""The name of a cluster precedes it."""
REPAIRED_TOPIC: Final = "rmq_sys_REPAIRED"
"""A topic that only Bolide has, for records that fill holes in a repaired log."""

SYSTEM_TOPICS: Final = frozenset(
    {
        AUTO_CREATE_TOPIC,
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
"""TopicValidator's SYSTEM_TOPIC_SET: reserved for the broker, even if they do not exist. Each start adds the topics
that it creates."""

TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""Its consumer offsets are the progress of the transaction check."""
TOOLS_GROUP: Final = "TOOLS_CONSUMER"
REDRIVER: Final = "bolide-redrive"
"""Default group whose offsets are the progress of resending dead letters."""
FIRST_GROUPS: Final = (
    TOOLS_GROUP,
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    TRANSACTION_GROUP,
)
"""Consumer groups that every broker has from its first start (SubscriptionGroupManager.init)."""
PREDEFINED_GROUPS: Final = frozenset(
    {
        "DEFAULT_CONSUMER",
        TOOLS_GROUP,
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        "SELF_TEST_C_GROUP",
    }
)
"""Groups that belong to no namespace (MixAll.PREDEFINE_GROUP_SET)."""

MASTER_ID: Final = 0
"""The broker id of a master. Slaves have other ids."""


def is_system_topic(topic: str) -> bool:
    """Return whether a topic is internal. Lists for users omit such topics."""
    return (
        topic in SYSTEM_TOPICS
        or topic.startswith((SYSTEM_TOPIC_PREFIX, OLD_SYSTEM_TOPIC_PREFIX))
        or topic.endswith(REPLY_TOPIC_SUFFIX)
    )


def is_predefined_group(group: str) -> bool:
    """Return whether a group is internal."""
    return group.startswith(SYSTEM_GROUP_PREFIX) or group in FIRST_GROUPS or group in PREDEFINED_GROUPS
