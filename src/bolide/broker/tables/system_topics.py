"""The topics that every broker has from its first start (the constructor of RocketMQ's TopicConfigManager)."""

from __future__ import annotations

from typing import Final

from bolide.broker.options.composed import BrokerOptions
from bolide.broker.tables.topic_config import TopicConfig
from bolide.layout.names import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    HALF_TOPIC,
    OFFSET_MOVED_EVENT,
    OP_HALF_TOPIC,
    REVIVE_TOPIC_PREFIX,
    ROCKSDB_TOPICS,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYNC_MEMBER_TOPIC_PREFIX,
    TIMER_TOPIC,
)
from bolide.layout.permissions import PERM_ALL, PERM_INHERIT

SCHEDULE_QUEUES: Final = 18


def system_topics(options: BrokerOptions) -> list[TopicConfig]:
    """Return the topics that a broker has from its first start."""
    cluster, broker = options.place.broker_cluster_name, options.place.broker_name
    delay_levels = max(len(options.shape.message_delay_level.split()), SCHEDULE_QUEUES)
    made = [
        TopicConfig(SELF_TEST_TOPIC, 1, 1),
        TopicConfig(BENCHMARK_TOPIC, 1024, 1024),
        TopicConfig(cluster, 16, 16, PERM_ALL if options.tables.cluster_topic_enable else PERM_INHERIT),
        TopicConfig(broker, 1, 1, PERM_ALL if options.tables.broker_topic_enable else PERM_INHERIT),
        TopicConfig(OFFSET_MOVED_EVENT, 1, 1),
        TopicConfig(SCHEDULE_TOPIC, delay_levels, delay_levels),
        TopicConfig(options.place.cluster_reply_topic, 1, 1),
        TopicConfig(HALF_TOPIC, 1, 1),
        TopicConfig(OP_HALF_TOPIC, 1, 1),
        *(TopicConfig(name, 1, 1) for name in ROCKSDB_TOPICS),
        TopicConfig(REVIVE_TOPIC_PREFIX + cluster, 8, 8),
        TopicConfig(SYNC_MEMBER_TOPIC_PREFIX + broker, 1, 1, PERM_INHERIT),
    ]
    if options.delay.timer_wheel_enable:
        made.append(TopicConfig(TIMER_TOPIC, 1, 1))
    if options.tables.auto_create_topic_enable:
        queues = options.tables.default_topic_queue_nums
        made.append(TopicConfig(AUTO_CREATE_TOPIC, queues, queues, PERM_ALL))
    if options.tables.trace_topic_enable:
        made.append(TopicConfig(options.tables.msg_trace_topic_name, 1, 1))
    return made
