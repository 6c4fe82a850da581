"""Queue units, and queue assignments (QueryConsumeQueueResponseBody.java, QueryAssignment*Body.java)."""

from __future__ import annotations

from msgspec import field

from bolide.remoting.bodies.base import Body, Int32, Int64, MessageQueue
from bolide.remoting.bodies.clients import MessageModel, SubscriptionData


class ConsumeQueueData(Body):
    """One queue unit. `eval` is whether the group's filter accepts it."""

    physic_offset: Int64 = 0
    physic_size: Int32 = 0
    tags_code: Int64 = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


class QueryConsumeQueueResponseBody(Body):
    """Response to QUERY_CONSUME_QUEUE."""

    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
    queue_data: list[ConsumeQueueData] = field(default_factory=list)
    max_queue_index: Int64 = 0
    min_queue_index: Int64 = 0


class QueryAssignmentRequestBody(Body):
    """Body of QUERY_ASSIGNMENT (5.x)."""

    topic: str = ""
    consumer_group: str = ""
    client_id: str = ""
    strategy_name: str = ""
    message_model: MessageModel | None = None


class MessageQueueAssignment(Body):
    """A queue assigned to the requesting client. `mode` is PULL or POP."""

    message_queue: MessageQueue = field(default_factory=MessageQueue)
    mode: str = "PULL"
    attachments: dict[str, str] | None = None


class QueryAssignmentResponseBody(Body):
    """Response to QUERY_ASSIGNMENT."""

    message_queue_assignments: list[MessageQueueAssignment] = field(default_factory=list)


class SetMessageRequestModeRequestBody(Body):
    """Body of SET_MESSAGE_REQUEST_MODE (5.x)."""

    topic: str = ""
    consumer_group: str = ""
    mode: str = "PULL"
    pop_share_queue_num: Int32 = 0
