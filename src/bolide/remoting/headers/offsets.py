"""Consumer offsets and queue offsets: query, store, search, reset and copy.

Fields and protocol names are from the Java header classes of the same names, releases 4.9.7 and 5.5.0.
"""

from __future__ import annotations

from bolide.remoting.headers.base import Header, Int32, Int64


class QueryConsumerOffsetRequestHeader(Header, rename="camel"):
    """Request 14 QUERY_CONSUMER_OFFSET."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None  # 5.x


class QueryConsumerOffsetResponseHeader(Header):
    """Response to 14 QUERY_CONSUMER_OFFSET."""

    offset: Int64


class UpdateConsumerOffsetRequestHeader(Header, rename="camel"):
    """Request 15 UPDATE_CONSUMER_OFFSET."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class SearchOffsetRequestHeader(Header, rename="camel"):
    """Request 29 SEARCH_OFFSET_BY_TIMESTAMP."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None  # 5.x
    lite_topic: str | None = None  # 5.5


class SearchOffsetResponseHeader(Header):
    """Response to 29 SEARCH_OFFSET_BY_TIMESTAMP."""

    offset: Int64


class GetMaxOffsetRequestHeader(Header, rename="camel"):
    """Request 30 GET_MAX_OFFSET."""

    topic: str
    queue_id: Int32
    committed: bool | None = None  # 5.x


class GetMaxOffsetResponseHeader(Header):
    """Response to 30 GET_MAX_OFFSET."""

    offset: Int64


class GetMinOffsetRequestHeader(Header, rename="camel"):
    """Request 31 GET_MIN_OFFSET."""

    topic: str
    queue_id: Int32


class GetMinOffsetResponseHeader(Header):
    """Response to 31 GET_MIN_OFFSET."""

    offset: Int64


class GetEarliestMsgStoretimeRequestHeader(Header, rename="camel"):
    """Request 32 GET_EARLIEST_MSG_STORETIME."""

    topic: str
    queue_id: Int32


class GetEarliestMsgStoretimeResponseHeader(Header):
    """Response to 32 GET_EARLIEST_MSG_STORETIME."""

    timestamp: Int64


class ResetOffsetRequestHeader(Header, rename="camel"):
    """Request 220 RESET_CONSUMER_CLIENT_OFFSET, 222 INVOKE_BROKER_TO_RESET_OFFSET."""

    group: str
    topic: str
    timestamp: Int64
    is_force: bool
    queue_id: Int32 | None = None  # 5.x
    offset: Int64 | None = None  # 5.x


class GetConsumerStatusRequestHeader(Header, rename="camel"):
    """Request 221 GET_CONSUMER_STATUS_FROM_CLIENT, 223 INVOKE_BROKER_TO_GET_CONSUMER_STATUS."""

    topic: str
    group: str
    client_addr: str | None = None


class CloneGroupOffsetRequestHeader(Header, rename="camel"):
    """Request 314 CLONE_GROUP_OFFSET."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool | None = None


class QueryCorrectionOffsetHeader(Header, rename="camel"):
    """Request 308 QUERY_CORRECTION_OFFSET."""

    compare_group: str
    topic: str
    filter_groups: str | None = None
