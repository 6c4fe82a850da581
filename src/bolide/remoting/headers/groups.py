"""Configuration and statistics of groups at a broker.

Fields and protocol names are from the Java header classes of the same names, releases 4.9.7 and 5.5.0.
"""

from __future__ import annotations

from bolide.remoting.headers.base import Header, Int32


class DeleteSubscriptionGroupRequestHeader(Header, rename="camel"):
    """Request 207 DELETE_SUBSCRIPTIONGROUP."""

    group_name: str
    clean_offset: bool | None = None  # 5.x
    remove_offset: bool | None = None  # until 5.x


class GetAllSubscriptionGroupRequestHeader(Header, rename="camel"):
    """Request 201 GET_ALL_SUBSCRIPTIONGROUP_CONFIG."""

    group_seq: Int32 | None = None  # 5.x, where it is required
    data_version: str | None = None  # 5.x
    max_group_num: Int32 | None = None  # 5.x


class GetAllSubscriptionGroupResponseHeader(Header, rename="camel"):
    """Response to 201 GET_ALL_SUBSCRIPTIONGROUP_CONFIG."""

    total_group_num: Int32 | None = None  # 5.x, where it is required


class GetSubscriptionGroupConfigRequestHeader(Header):
    """Request 352 GET_SUBSCRIPTIONGROUP_CONFIG."""

    group: str


class UpdateGroupForbiddenRequestHeader(Header):
    """Request 353 UPDATE_AND_GET_GROUP_FORBIDDEN (5.x). Without `readable`, it is only a query."""

    group: str
    topic: str
    readable: bool | None = None


class GetConsumeStatsRequestHeader(Header, rename="camel"):
    """Request 208 GET_CONSUME_STATS."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None  # 5.x


class GetConsumeStatsInBrokerHeader(Header, rename="camel"):
    """Request 317 GET_BROKER_CONSUME_STATS."""

    is_order: bool


class QueryTopicConsumeByWhoRequestHeader(Header):
    """Request 300 QUERY_TOPIC_CONSUME_BY_WHO."""

    topic: str


class QueryConsumeTimeSpanRequestHeader(Header):
    """Request 303 QUERY_CONSUME_TIME_SPAN."""

    topic: str
    group: str


class QueryTopicsByConsumerRequestHeader(Header):
    """Request 343 QUERY_TOPICS_BY_CONSUMER."""

    group: str


class QuerySubscriptionByConsumerRequestHeader(Header):
    """Request 345 QUERY_SUBSCRIPTION_BY_CONSUMER."""

    group: str
    topic: str | None = None
