"""Topics in a broker's tables, registrations and responses (TopicConfig.java, TopicConfigSerializeWrapper.java)."""

from __future__ import annotations

import enum
from typing import Any, Final

from msgspec import field

from bolide.remoting.bodies.base import Body, Int32, Int64, MessageQueue
from bolide.remoting.bodies.versions import DataVersion

DELETED_TOPICS: Final = "deletedTopics"
"""A member of the response to GET_ALL_TOPIC_CONFIG that only Bolide's brokers write and read: topics that were deleted
and created again, each with the log offset of the deletion."""
GUESSED_TOPICS: Final = "guessedTopics"
"""A member of that response, and of topics.json, that only Bolide uses. It contains topics that a slave inferred from
their messages and that were not configured since, each with its number of queues. A later message may show that a topic
has more."""


class TopicFilterType(enum.StrEnum):
    """Whether a message of the topic has one tag or several."""

    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"


class TopicConfig(Body):
    """One topic. `perm` has the bits 4 (read), 2 (write) and 1 (inherit). `attributes` (5.x) maps ``+key`` to ``value``
    in a request that sets them."""

    topic_name: str = ""
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = 6
    topic_filter_type: TopicFilterType = TopicFilterType.SINGLE_TAG
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)


class TopicConfigSerializeWrapper(Body):
    """All topics of a broker: response to GET_ALL_TOPIC_CONFIG, and topics.json (without mapping fields)."""

    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)


class TopicConfigAndMappingSerializeWrapper(Body):
    """Like `TopicConfigSerializeWrapper`, with the static-topic mappings of 5.x, which are stored unchanged: Bolide has
    no static topics."""

    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)
    topic_queue_mapping_info_map: dict[str, Any] = field(default_factory=dict)
    topic_queue_mapping_detail_map: dict[str, Any] = field(default_factory=dict)
    mapping_data_version: DataVersion = field(default_factory=DataVersion)


class TopicList(Body):
    """Response to the codes that list topic names. `broker_addr` is the address of a live broker, which only name
    servers set."""

    topic_list: list[str] = field(default_factory=list)
    broker_addr: str | None = None


class TopicOffset(Body):
    """Queue offsets of one queue. `last_update_timestamp` is the time of the last message in ms, or 0."""

    min_offset: Int64 = 0
    max_offset: Int64 = 0
    last_update_timestamp: Int64 = 0


class TopicStatsTable(Body):
    """Response to GET_TOPIC_STATS_INFO."""

    offset_table: dict[MessageQueue, TopicOffset] = field(default_factory=dict)
    topic_put_tps: float = 0.0
