"""Return of a message that a consumer could not process.

Fields and protocol names are from the Java header classes of the same names, releases 4.9.7 and 5.5.0.
"""

from __future__ import annotations

from bolide.remoting.headers.base import Header, Int32, Int64


class ConsumerSendMsgBackRequestHeader(Header, rename="camel"):
    """Request 36 CONSUMER_SEND_MSG_BACK."""

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
