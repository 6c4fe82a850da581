"""Consumer groups in a broker's tables and responses (SubscriptionGroupConfig.java, SubscriptionGroupWrapper.java)."""

from __future__ import annotations

from typing import Any

from msgspec import field

from bolide.remoting.bodies.base import Body, Int32, Int64
from bolide.remoting.bodies.versions import DataVersion


class GroupRetryPolicy(Body):
    """Retry delays (5.x). CUSTOMIZED uses the delay table; other settings are stored unchanged."""

    type: str = "CUSTOMIZED"
    exponential_retry_policy: dict[str, Any] | None = None
    customized_retry_policy: dict[str, Any] | None = None


class SubscriptionGroupConfig(Body):
    """One consumer group, with Java's defaults."""

    group_name: str | None = None
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    group_retry_policy: GroupRetryPolicy = field(default_factory=GroupRetryPolicy)
    broker_id: Int64 = 0
    which_broker_when_consume_slowly: Int64 = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: Int32 = 0
    consume_timeout_minute: Int32 = 15
    subscription_data_set: list[dict[str, Any]] | None = None
    attributes: dict[str, str] = field(default_factory=dict)


class SubscriptionGroupWrapper(Body):
    """All groups of a broker: response to GET_ALL_SUBSCRIPTIONGROUP_CONFIG, and subscriptionGroup.json."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)
    forbidden_table: dict[str, dict[str, Int32]] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)


class GroupList(Body):
    """Response to QUERY_TOPIC_CONSUME_BY_WHO."""

    group_list: list[str] = field(default_factory=list)
