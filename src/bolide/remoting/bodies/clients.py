"""Clients in heartbeats and in responses of brokers (HeartbeatData.java, ConsumerConnection.java).

The enum members have Java's order, because an ordinal may be sent instead of a name.
"""

from __future__ import annotations

import enum

from msgspec import field

from bolide.remoting.bodies.base import Body, Int32, Int64


class ConsumeType(enum.StrEnum):
    """The way of requesting messages: by the application (actively), by the client library (passively), or by POP."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class MessageModel(enum.StrEnum):
    """Whether each message goes to one member of the group or to all."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"
    LITE_SELECTIVE = "LITE_SELECTIVE"


class ConsumeFromWhere(enum.StrEnum):
    """Start position of a group without a stored offset. Three of the names are deprecated and treated as the first."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class SubscriptionData(Body):
    """A group's subscription to one topic. `code_set` contains the Java hash codes of the tags. `sub_version` is in ms
    since the epoch."""

    topic: str = ""
    sub_string: str = "*"
    tags_set: list[str] = field(default_factory=list)
    code_set: list[Int32] = field(default_factory=list)
    sub_version: Int64 = 0
    expression_type: str | None = "TAG"
    class_filter_mode: bool = False


class ProducerData(Body):
    """A producer group of a client."""

    group_name: str = ""


class ConsumerData(Body):
    """A consumer group of a client. An enum is None if the peer sent an unknown name."""

    group_name: str = ""
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    subscription_data_set: list[SubscriptionData] = field(default_factory=list)
    unit_mode: bool = False


class HeartbeatData(Body):
    """Body of HEART_BEAT. `heartbeat_fingerprint` and `without_sub` belong to heartbeat V2 of 5.x."""

    client_id: str = field(default="", name="clientID")
    producer_data_set: list[ProducerData] = field(default_factory=list)
    consumer_data_set: list[ConsumerData] = field(default_factory=list)
    heartbeat_fingerprint: Int32 = 0
    without_sub: bool = False


class Connection(Body):
    """One connected client. `language` is a name of codes.LANGUAGES, `version` the ordinal of its release."""

    client_id: str = ""
    client_addr: str = ""
    language: str | None = None
    version: Int32 = 0


class ConsumerConnection(Body):
    """Response to GET_CONSUMER_CONNECTION_LIST."""

    connection_set: list[Connection] = field(default_factory=list)
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None


class ProducerConnection(Body):
    """Response to GET_PRODUCER_CONNECTION_LIST."""

    connection_set: list[Connection] = field(default_factory=list)


class ProducerInfo(Body):
    """One connected producer."""

    client_id: str = ""
    remote_ip: str = field(default="", name="remoteIP")
    language: str | None = None
    version: Int32 = 0
    last_update_timestamp: Int64 = 0


class ProducerTableInfo(Body):
    """Response to GET_ALL_PRODUCER_INFO: producers by group."""

    data: dict[str, list[ProducerInfo]] = field(default_factory=dict)


class GetConsumerListByGroupResponseBody(Body):
    """Response to GET_CONSUMER_LIST_BY_GROUP."""

    consumer_id_list: list[str] = field(default_factory=list)


class CheckClientRequestBody(Body):
    """Body of CHECK_CLIENT_CONFIG."""

    client_id: str = ""
    group: str = ""
    subscription_data: SubscriptionData = field(default_factory=SubscriptionData)
    namespace: str | None = None
