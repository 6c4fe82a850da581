"""LineMember: a message that can be bound to a queue, and its place in the line of that queue."""

from __future__ import annotations

import asyncio
from typing import Any

from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.send_result import SendResult
from bolide.client.producing.bound_line import BoundLine
from bolide.client.producing.passing_failures import is_passing_rejection
from bolide.client.producing.send_context import SendContext
from bolide.errors import BolideError, RequestTimeout
from bolide.transport.client import ClientConnection


class LineMember:
    """Base class of a `Sending`, with the part that calls its `BoundLine`. A message without a line is not bound to a
    queue, or has not started."""

    __slots__ = (
        "count",
        "deadline",
        "failure",
        "future",
        "line",
        "number",
        "producer",
        "queue",
        "size",
        "timer",
        "topic",
        "tries",
        "written",
    )

    producer: SendContext
    topic: str
    queue: MessageQueue | None
    deadline: float
    count: int
    size: int
    tries: int
    future: asyncio.Future[SendResult]
    line: BoundLine | None
    """The line of the queue that the message is bound to, or of its topic while it has no queue."""

    # Set when the message joins a line:
    number: int
    """Number of the message in its line."""
    written: bool
    """Whether a request with the message has no outcome yet."""
    failure: BolideError | None
    """The error of the last try, which the line repeats."""
    timer: asyncio.TimerHandle
    """Calls `late`, while the message waits in its line."""

    def start(self) -> None:
        """Start a try."""

    def start_later(self, left: float, failure: BolideError) -> None:
        """Start the next try after a pause. `left` is the remaining time in seconds, `failure` that of the last try."""

    def end(self, error: BaseException) -> None:
        """Set the outcome after the last try."""

    # -- before a try

    def waits_for_route(self, missing: bool) -> bool:
        """Return whether the message must wait until earlier messages of its topic have a queue. Otherwise, if the
        route of the topic is `missing` and was known before, the next messages wait for this one."""
        producer, topic = self.producer, self.topic
        line = producer.topic_lines.get(topic)
        if line is not None and (line.head is not None or line.waiting) and self.waits_in(line):
            return True
        if missing and producer.routes.seen(topic):
            line = producer.topic_line_of(topic)
            if self.line is not line:
                self._join(line)
            line.head = self
        return False

    def waits_in(self, line: BoundLine) -> bool:
        """Join a line, unless this is done. Return whether the message must wait for earlier messages of the line."""
        if self.line is not line:
            self._join(line)
        if not line.blocks(self):
            return False
        self.tries -= 1  # this try does not start
        line.wait(self)
        return True

    def _join(self, line: BoundLine) -> None:
        old, self.line = self.line, line
        line.last = self.number = line.last + 1
        self.written = False
        self.failure = None
        if old is not None:
            old.passed(self)

    def lets_pass(self) -> bool:
        """Return whether the message waits again, because an earlier message has failed before this one was written."""
        line = self.line
        if line is None or not line.waiting or line.waiting[0].number > self.number:
            return False
        self.tries -= 1
        line.give_way(self)
        return True

    def write_in_line(self, connection: ClientConnection) -> None:
        """Called when a request with the message is about to be queued."""
        line = self.line
        if line is not None and not self.written and not connection.closed:
            self.written = True
            line.open += 1

    # -- after a try

    def retried_in_line(self, error: BolideError) -> bool:
        """Add the message to its line for a retry, if no broker can have stored it. Return whether it was added."""
        line = self.line
        if line is None:  # no queue could be chosen
            line = self.producer.topic_line_of(self.topic)
            self._join(line)
        elif self.written and not is_passing_rejection(error):
            return False
        self.rejected()
        self.failure = error
        line.retry(self)
        return True

    def rejected(self) -> None:
        """Called when the message is certainly not stored."""
        line = self.line
        if line is not None and self.written:
            self.written = False
            line.open -= 1

    def try_again(self) -> None:
        """Start the next try of the head of a line, after a pause."""
        producer, failure = self.producer, self.failure
        left = self.deadline - producer.loop.time()
        if failure is None:
            return
        if producer.joined is not None and left > producer.backoff and not self.future.done():
            self.start_later(left, failure)
        else:
            self.end(failure)

    def give_up(self) -> None:
        """Called when a later message of the queue was stored, so that this message cannot be retried."""
        failure = self.failure
        if failure is not None:
            self.end(failure)

    def late(self) -> None:
        """Called at the deadline of a message that waits in its line."""
        line = self.line
        assert line is not None
        line.waiting.remove(self)
        place: Any = self.queue or f"topic {self.topic}"
        late = f"a message to {place} was not sent within the time allowed: an earlier message has no outcome yet"
        self.end(self.failure or RequestTimeout(late))

    def leave_line(self) -> None:
        """Called when the message has its outcome. If it was in a request, it may be stored."""
        line = self.line
        if line is None:
            return
        if self.written:
            self.written = False
            line.open -= 1
            if self.number > line.stored:
                line.stored = self.number
        if line.head is not None or line.waiting:
            line.left(self)

    def finish(self) -> None:
        """Called when the message has its outcome: free its place in flight."""
        if self.line is not None:
            self.leave_line()
        self.producer.finished(self, self.count, self.size)
