"""Lane: the messages of one queue that share requests. See `accumulator.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bolide.client.messages.light_queues import is_lmq
from bolide.client.messages.queue import MessageQueue
from bolide.client.producing.bound_line import BoundLine
from bolide.client.producing.send_context import Accumulates, AnsweredLane
from bolide.client.producing.sending import Sending
from bolide.layout.names import DLQ_PREFIX, RETRY_PREFIX
from bolide.remoting.batch import ELEMENT_FIXED
from bolide.transport.client import ClientConnection

MAX_SPREAD: Final = 0.05
"""Maximum difference in seconds between the deadlines of messages that share a request. Its deadline is the latest."""
MAX_ADDED: Final = ELEMENT_FIXED + 512
"""Maximum number of bytes that a batch adds to the body and the properties of a message."""


class Lane(AnsweredLane):
    """The messages of one queue that wait for the next request, and the requests in flight."""

    __slots__ = (
        "accumulator",
        "alone_until",
        "batches",
        "connection",
        "due",
        "in_flight",
        "joins",
        "line",
        "ordered",
        "queue",
        "waiting",
    )

    def __init__(self, queue: MessageQueue, connection: ClientConnection, accumulator: Accumulates) -> None:
        self.queue = queue
        self.connection = connection
        self.accumulator = accumulator
        self.joins = not (queue.topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or is_lmq(queue.topic))
        """Whether brokers accept batches for the topic."""
        self.alone_until = 0.0
        self.in_flight = 0
        self.batches = 0
        """Number of requests in flight with several messages."""
        self.ordered = 0
        """Number of these requests with a message that is bound to the queue, by the caller or by a sharding key. The
        messages of a rejected batch are resent one by one, and later messages must not overtake them."""
        self.due = False
        """Whether the lane is processed when this turn of the loop ends."""
        self.waiting: list[Sending] = []
        self.line: BoundLine | None = None
        """The line of the messages that are bound to the queue, or None before the first such message."""

    def answered(self) -> None:
        """Called when a request has a response, or failed."""
        self.in_flight -= 1
        self.accumulator.in_flight -= 1
        if self.waiting:
            self.accumulator.schedule(self)

    def hold_back(self) -> None:
        """Remove the messages that must wait until an earlier one is retried."""
        line = self.line
        if line is None or (line.head is None and not line.waiting):
            return
        kept: list[Sending] = []
        for sending in self.waiting:
            if sending.line is line and line.blocks(sending):
                sending.tries -= 1  # this try did not start
                line.wait(sending)
            else:
                kept.append(sending)
        self.waiting[:] = kept


def joinable(waiting: list[Sending], most_bytes: int) -> int:
    """Return how many of the waiting messages can share a request with the first, which can join a batch."""
    first = waiting[0]
    wait_stored = first.message.wait_stored
    earliest = latest = first.deadline
    size = 0
    for count, sending in enumerate(waiting):
        size += MAX_ADDED + len(sending.body) + 4 * len(sending.properties)  # UTF-8: 4 bytes per character at most
        if sending.deadline > latest:
            latest = sending.deadline
        elif sending.deadline < earliest:
            earliest = sending.deadline
        if (
            not sending.can_join()
            or sending.message.wait_stored != wait_stored
            or latest - earliest > MAX_SPREAD
            or (size > most_bytes and count)
        ):
            return count
    return len(waiting)


def end_each(sendings: list[Sending], end: Callable[[Sending], None]) -> None:
    """End all sends, even if one is interrupted by a cancellation or Ctrl-C in user code."""
    for number, sending in enumerate(sendings):
        try:
            end(sending)
        except BaseException:
            end_each(sendings[number + 1 :], end)
            raise
