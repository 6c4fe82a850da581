"""Connected producers and consumers: their list, state, and notifications.

Fields and protocol names are from the Java header classes of the same names, releases 4.9.7 and 5.5.0.
"""

from __future__ import annotations

from bolide.remoting.headers.base import Header, Int32


class UnregisterClientRequestHeader(
    Header,
    rename={
        "client_id": "clientID",
        "producer_group": "producerGroup",
        "consumer_group": "consumerGroup",
    },
):
    """Request 35 UNREGISTER_CLIENT."""

    client_id: str
    producer_group: str | None = None
    consumer_group: str | None = None


class GetConsumerListByGroupRequestHeader(Header, rename="camel"):
    """Request 38 GET_CONSUMER_LIST_BY_GROUP."""

    consumer_group: str


class NotifyConsumerIdsChangedRequestHeader(Header, rename="camel"):
    """Request 40 NOTIFY_CONSUMER_IDS_CHANGED."""

    consumer_group: str


class GetConsumerConnectionListRequestHeader(Header, rename="camel"):
    """Request 203 GET_CONSUMER_CONNECTION_LIST."""

    consumer_group: str


class GetProducerConnectionListRequestHeader(Header, rename="camel"):
    """Request 204 GET_PRODUCER_CONNECTION_LIST."""

    producer_group: str


class GetConsumerRunningInfoRequestHeader(Header, rename="camel"):
    """Request 307 GET_CONSUMER_RUNNING_INFO."""

    consumer_group: str
    client_id: str
    jstack_enable: bool | None = None


class ConsumeMessageDirectlyResultRequestHeader(Header, rename="camel"):
    """Request 309 CONSUME_MESSAGE_DIRECTLY."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None  # 5.x
    topic_sys_flag: Int32 | None = None  # 5.x
    group_sys_flag: Int32 | None = None  # 5.x
