"""Pull requests, with or without long polling, and the response.

Fields and protocol names are from the Java header classes of the same names, releases 4.9.7 and 5.5.0.
"""

from __future__ import annotations

from bolide.remoting.headers.base import Header, Int32, Int64


class PullMessageRequestHeader(Header, rename="camel"):
    """Request 11 PULL_MESSAGE, 361 LITE_PULL_MESSAGE."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    sub_version: Int64
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None  # 5.x
    request_source: Int32 | None = None  # 5.x
    proxy_froward_client_id: str | None = None  # 5.x
    lite_topic: str | None = None  # 5.5


class PullMessageResponseHeader(Header, rename="camel"):
    """Response to 11 PULL_MESSAGE, 361 LITE_PULL_MESSAGE."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None  # 5.x
    topic_sys_flag: Int32 | None = None  # 5.x
    group_sys_flag: Int32 | None = None  # 5.x
    forbidden_type: Int32 | None = None  # 5.x
