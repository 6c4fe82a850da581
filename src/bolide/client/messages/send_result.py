"""The broker's result for a stored message (SendMessageResponseHeader and its response code)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from bolide.client.messages.queue import MessageQueue
from bolide.errors import PeerError
from bolide.remoting import codes

# The default region (MixAll.DEFAULT_TRACE_REGION_ID), for responses without a region.
DEFAULT_REGION: Final = "DefaultRegion"


class NamedNumber(IntEnum):
    """A number of the protocol that prints as its name."""

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)


class SendStatus(NamedNumber):
    """Durability of a stored message. All four values mean that it is stored. The number is the response code."""

    SEND_OK = codes.SUCCESS
    """Stored as safely as the broker's settings require."""
    FLUSH_DISK_TIMEOUT = codes.FLUSH_DISK_TIMEOUT
    """Stored, but not known to be on disk yet. Resend it if it must survive a power failure."""
    SLAVE_NOT_AVAILABLE = codes.SLAVE_NOT_AVAILABLE
    """Stored by the master only: too few slaves are in sync. Resend it, or repair the slaves."""
    FLUSH_SLAVE_TIMEOUT = codes.FLUSH_SLAVE_TIMEOUT
    """Stored, but not known to be on as many machines as `inSyncReplicas` requires. Resend it if it must survive the
    loss of a machine."""


STATUS_OF = {int(status): status for status in SendStatus}


@dataclass(slots=True)
class SendResult:
    """Position and ids of a stored message. `message_id` is the producer's id (comma-joined for a batch),
    `offset_message_id` the broker's, and `queue_offset` its offset in the queue (of the first message of a batch).
    `region_id` and `trace_on` are the broker's settings for message traces. `recall_handle` recalls a message that was
    sent with a delay of any length."""

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str = ""
    region_id: str = DEFAULT_REGION
    trace_on: bool = True
    recall_handle: str = ""


def send_result(code: int, ext: dict[str, str], message_id: str, topic: str, broker_name: str) -> SendResult:
    """Return the result from the fields of a success response."""
    return SendResult(
        STATUS_OF[code],
        message_id,
        ext.get("msgId", ""),
        MessageQueue(topic, broker_name, int(ext.get("queueId", "0"))),
        int(ext.get("queueOffset", "0")),
        ext.get("transactionId", ""),
        ext.get("MSG_REGION") or DEFAULT_REGION,
        ext.get("TRACE_ON") != "false",
        ext.get("recallHandle", ""),
    )


def results_of(result: SendResult, ids: list[str]) -> list[SendResult]:
    """Split the result of a batch into results of its messages: each has its id and a consecutive queue offset.

    Raises `PeerError` if the broker named another number of messages, because it may have stored only some of them.
    """
    stored = result.offset_message_id.split(",")
    if len(stored) == 1:  # a queue that stores batches as one record has one id for all
        stored *= len(ids)
    elif len(stored) != len(ids):
        raise PeerError(
            f"broker {result.queue.broker_name} responded to a batch of {len(ids)} messages with {len(stored)} ids, so"
            " some of them may not be stored: check its log"
        )
    status, queue, first = result.status, result.queue, result.queue_offset
    transaction_id, region_id, trace_on = result.transaction_id, result.region_id, result.trace_on
    return [
        SendResult(status, message_id, offset_id, queue, first + number, transaction_id, region_id, trace_on)
        for number, (message_id, offset_id) in enumerate(zip(ids, stored, strict=True))
    ]
