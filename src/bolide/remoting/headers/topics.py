"""Configuration and statistics of topics at a broker.

Fields and protocol names are from the Java header classes of the same names, releases 4.9.7 and 5.5.0.
"""

from __future__ import annotations

from bolide.remoting.headers.base import Header, Int32


class CreateTopicRequestHeader(Header, rename="camel"):
    """Request 17 UPDATE_AND_CREATE_TOPIC, 513 UPDATE_AND_CREATE_STATIC_TOPIC."""

    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    order: bool
    topic_sys_flag: Int32 | None = None
    attributes: str | None = None  # 5.x
    force: bool | None = None  # 5.x


class DeleteTopicRequestHeader(Header):
    """Request 215 DELETE_TOPIC_IN_BROKER."""

    topic: str


class GetAllTopicConfigRequestHeader(Header, rename="camel"):
    """Request 21 GET_ALL_TOPIC_CONFIG."""

    topic_seq: Int32 | None = None  # 5.x, where it is required
    data_version: str | None = None  # 5.x
    max_topic_num: Int32 | None = None  # 5.x


class GetAllTopicConfigResponseHeader(Header, rename="camel"):
    """Response to 21 GET_ALL_TOPIC_CONFIG."""

    total_topic_num: Int32 | None = None  # 5.x


class GetTopicConfigRequestHeader(Header):
    """Request 351 GET_TOPIC_CONFIG."""

    topic: str


class GetTopicStatsInfoRequestHeader(Header):
    """Request 202 GET_TOPIC_STATS_INFO."""

    topic: str
