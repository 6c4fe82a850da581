"""Queue locks of orderly consumers (LockBatchRequestBody.java and related classes)."""

from __future__ import annotations

from msgspec import field

from bolide.remoting.bodies.base import Body, MessageQueue


class LockBatchRequestBody(Body):
    """Body of LOCK_BATCH_MQ."""

    consumer_group: str = ""
    client_id: str = ""
    mq_set: list[MessageQueue] = field(default_factory=list)
    only_this_broker: bool = False


class UnlockBatchRequestBody(Body):
    """Body of UNLOCK_BATCH_MQ."""

    consumer_group: str = ""
    client_id: str = ""
    mq_set: list[MessageQueue] = field(default_factory=list)
    only_this_broker: bool = False


class LockBatchResponseBody(Body):
    """Response to LOCK_BATCH_MQ: the queues locked by the caller."""

    lock_ok_mq_set: list[MessageQueue] = field(default_factory=list, name="lockOKMQSet")
