"""Sending: one message or a batch, and the answer to both.

Fields and names: the Java header classes of the same names, releases 4.9.7 and 5.5.0.
"""

from __future__ import annotations

from typing import TypeAlias

from bolide.remoting.headers.base import Header, Int32, Int64


class SendMessageRequestHeader(Header, rename="camel"):
    """Request 10 SEND_MESSAGE, 324 SEND_REPLY_MESSAGE."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: Int32 | None = None


class SendMessageRequestHeaderV2(
    Header,
    rename={
        "producer_group": "a",
        "topic": "b",
        "default_topic": "c",
        "default_topic_queue_nums": "d",
        "queue_id": "e",
        "sys_flag": "f",
        "born_timestamp": "g",
        "flag": "h",
        "properties": "i",
        "reconsume_times": "j",
        "unit_mode": "k",
        "max_reconsume_times": "l",
        "batch": "m",
        "broker_name": "n",
    },
):
    """Request 310 SEND_MESSAGE_V2, 320 SEND_BATCH_MESSAGE, 325 SEND_REPLY_MESSAGE_V2."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    batch: bool | None = None
    broker_name: str | None = None  # 4.9.5


SendHeader: TypeAlias = SendMessageRequestHeader | SendMessageRequestHeaderV2
"""A send in either form."""


class SendMessageResponseHeader(Header, rename="camel"):
    """Response to 10, 310, 320, 324, 325."""

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None  # 5.x
    recall_handle: str | None = None  # 5.x
