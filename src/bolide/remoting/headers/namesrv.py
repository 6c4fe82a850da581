"""Requests of brokers, clients and operators to a name server about brokers and routes.

Fields and protocol names are from the Java header classes of the same names, releases 4.9.7 and 5.5.0.
"""

from __future__ import annotations

from bolide.remoting.headers.base import Header, Int32, Int64


class RegisterBrokerRequestHeader(Header, rename="camel"):
    """Request 103 REGISTER_BROKER."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None  # 5.x
    enable_acting_master: bool | None = None  # 5.x
    compressed: bool | None = None
    body_crc32: Int32 | None = None


class RegisterBrokerResponseHeader(Header, rename="camel"):
    """Response to 103 REGISTER_BROKER."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnRegisterBrokerRequestHeader(Header, rename="camel"):
    """Request 104 UNREGISTER_BROKER."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class GetRouteInfoRequestHeader(Header, rename="camel"):
    """Request 105 GET_ROUTEINFO_BY_TOPIC."""

    topic: str
    accept_standard_json_only: bool | None = None


class QueryDataVersionRequestHeader(Header, rename="camel"):
    """Request 322 QUERY_DATA_VERSION."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionResponseHeader(Header):
    """Response to 322 QUERY_DATA_VERSION."""

    changed: bool


class WipeWritePermOfBrokerRequestHeader(Header, rename="camel"):
    """Request 205 WIPE_WRITE_PERM_OF_BROKER."""

    broker_name: str


class WipeWritePermOfBrokerResponseHeader(Header, rename="camel"):
    """Response to 205 WIPE_WRITE_PERM_OF_BROKER."""

    wipe_topic_count: Int32


class AddWritePermOfBrokerRequestHeader(Header, rename="camel"):
    """Request 327 ADD_WRITE_PERM_OF_BROKER."""

    broker_name: str


class AddWritePermOfBrokerResponseHeader(Header, rename="camel"):
    """Response to 327 ADD_WRITE_PERM_OF_BROKER."""

    add_topic_count: Int32


class DeleteTopicFromNamesrvRequestHeader(Header, rename="camel"):
    """Request 216 DELETE_TOPIC_IN_NAMESRV."""

    topic: str
    cluster_name: str | None = None


class GetTopicsByClusterRequestHeader(Header):
    """Request 224 GET_TOPICS_BY_CLUSTER."""

    cluster: str


class RegisterTopicRequestHeader(Header):
    """Request 217 REGISTER_TOPIC_IN_NAMESRV."""

    topic: str


class GetBrokerMemberGroupRequestHeader(Header, rename="camel"):
    """Request 901 GET_BROKER_MEMBER_GROUP."""

    cluster_name: str
    broker_name: str


class BrokerHeartbeatRequestHeader(Header, rename="camel"):
    """Request 904 BROKER_HEARTBEAT."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None


class NotifyMinBrokerIdChangeRequestHeader(Header, rename="camel"):
    """Request 905 NOTIFY_MIN_BROKER_ID_CHANGE."""

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
