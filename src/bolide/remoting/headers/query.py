"""Queries of stored messages by key, by physical offset, and by queue unit.

Fields and protocol names are from the Java header classes of the same names, releases 4.9.7 and 5.5.0.
"""

from __future__ import annotations

from bolide.remoting.headers.base import Header, Int32, Int64


class QueryMessageRequestHeader(Header, rename="camel"):
    """Request 12 QUERY_MESSAGE."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    index_type: str | None = None  # 5.5
    last_key: str | None = None  # 5.5


class QueryMessageResponseHeader(Header, rename="camel"):
    """Response to 12 QUERY_MESSAGE."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessageRequestHeader(Header):
    """Request 33 VIEW_MESSAGE_BY_ID."""

    offset: Int64
    topic: str | None = None  # 5.x


class QueryConsumeQueueRequestHeader(Header, rename="camel"):
    """Request 321 QUERY_CONSUME_QUEUE."""

    topic: str | None = None
    queue_id: Int32 | None = None
    index: Int64 | None = None
    count: Int32 | None = None
    consumer_group: str | None = None
