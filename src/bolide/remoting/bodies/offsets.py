"""Consumer offsets: stored, reported, reset and corrected (ConsumerOffsetSerializeWrapper.java,
ResetOffsetBody.java)."""

from __future__ import annotations

from msgspec import field

from bolide.remoting.bodies.base import Body, Int32, Int64, MessageQueue
from bolide.remoting.bodies.versions import DataVersion


class ConsumerOffsetSerializeWrapper(Body):
    """Offsets by ``topic@group`` and queue id: response to GET_ALL_CONSUMER_OFFSET, and consumerOffset.json."""

    offset_table: dict[str, dict[Int32, Int64]] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)


class DelayOffsetSerializeWrapper(Body):
    """Delivered offset by delay level: response to GET_ALL_DELAY_OFFSET, and delayOffset.json."""

    offset_table: dict[Int32, Int64] = field(default_factory=dict)
    data_version: DataVersion | None = None


class ResetOffsetBody(Body):
    """The offsets to which a group is reset, by queue."""

    offset_table: dict[MessageQueue, Int64] = field(default_factory=dict)


class MessageQueueForC(Body):
    """A queue and its offset, for clients that cannot read objects as keys."""

    topic: str = ""
    broker_name: str = ""
    queue_id: Int32 = 0
    offset: Int64 = 0


class ResetOffsetBodyForC(Body):
    """`ResetOffsetBody` for C++ clients."""

    offset_table: list[MessageQueueForC] = field(default_factory=list)


class GetConsumerStatusBody(Body):
    """Offsets of one client by queue, or of all clients of a group."""

    message_queue_table: dict[MessageQueue, Int64] = field(default_factory=dict)
    consumer_table: dict[str, dict[MessageQueue, Int64]] = field(default_factory=dict)


class QueryCorrectionOffsetBody(Body):
    """Response to QUERY_CORRECTION_OFFSET: offset by queue id."""

    correction_offsets: dict[Int32, Int64] = field(default_factory=dict)
