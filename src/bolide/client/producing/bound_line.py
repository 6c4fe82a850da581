"""BoundLine: the order of the messages of one producer that are bound to one queue, while one of them is retried.

The caller or a sharding key binds a message to a queue. Such a message is retried at the same queue, and only if no
broker can have stored it. It must not change its place among the messages of the queue:

- After its failure, later messages wait. The next try starts when every request in flight has an outcome.
- If a later message was stored, or may have been, the earlier message fails instead.
- A message that needs a connection or a route first makes later messages wait until it is written.

Messages of a topic without a route have no queue yet. They share one line, so that they get their queues in order.
"""

from __future__ import annotations

import asyncio
from typing import Any


class BoundLine:
    """A message is a `Sending`. While no message is retried, the line numbers the messages and does not delay them."""

    __slots__ = ("_due", "_healthy", "_loop", "head", "last", "open", "stored", "waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due = False
        self._healthy = True
        """Whether the last try stored its message, so that the next messages need no pause."""
        self.last = 0
        """Number of the newest message. Numbers start with 1."""
        self.open = 0
        """Number of messages in a request without an outcome."""
        self.stored = 0
        """Highest number of a message that a broker has stored, or may have stored."""
        self.head: Any = None
        """The message that all others wait for: it is retried, or is about to be written."""
        self.waiting: list[Any] = []
        """Messages that are not sent now, without the head, by number."""

    def blocks(self, sending: Any) -> bool:
        """Return whether a message must wait."""
        head = self.head
        return head is not sending and (head is not None or len(self.waiting) > 0)

    def wait(self, sending: Any) -> None:
        """Add a message that must wait. At its deadline it fails."""
        waiting = self.waiting
        at = len(waiting)
        while at and waiting[at - 1].number > sending.number:
            at -= 1
        waiting.insert(at, sending)
        sending.timer = self._loop.call_at(sending.deadline, sending.late)

    def retry(self, sending: Any) -> None:
        """Called when the try of a message has failed, and no broker has stored it."""
        self._healthy = False
        self.give_way(sending)

    def give_way(self, sending: Any) -> None:
        """Called when a message must wait although it was its turn."""
        if self.head is sending:
            self.head = None
        self.wait(sending)
        self.soon()

    def passed(self, sending: Any) -> None:
        """Called when the head no longer makes others wait: it was written, or has moved to the line of its queue."""
        if self.head is sending:
            self.head = None
            self._healthy = True
            self.soon()

    def left(self, sending: Any) -> None:
        """Called when a message has its outcome."""
        if self.head is sending:
            self.head = None
            self._healthy = self.stored >= sending.number
        self.soon()

    def soon(self) -> None:
        """Send the next messages when this turn of the loop ends."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self._proceed)

    def _proceed(self) -> None:
        self._due = False
        self._fail_overtaken()
        waiting = self.waiting
        if self.head is not None or self.open or not waiting:
            return
        if waiting[0].failure is not None and not self._healthy:
            self.head = first = waiting.pop(0)
            first.timer.cancel()
            first.try_again()
            return
        self.waiting = []
        for number, sending in enumerate(waiting):
            sending.timer.cancel()
            try:
                sending.start()
            except BaseException:  # an interruption by code of the user
                for other in waiting[number + 1 :]:
                    other.timer.cancel()
                    self.wait(other)
                self.soon()
                raise

    def _fail_overtaken(self) -> None:
        """Fail the messages that can no longer be retried, because a later message is stored."""
        stored = self.stored
        overtaken = [each for each in self.waiting if each.number < stored and each.failure is not None]
        if overtaken:
            self.waiting = [each for each in self.waiting if each.number >= stored or each.failure is None]
            for sending in overtaken:
                sending.timer.cancel()
                sending.give_up()
