"""Lent: messages of one poll that an iterator returns to its caller one by one.

The blocking iterator returns them on the caller's thread, so that a list of messages needs one hop between threads. The
loop's thread takes back the messages that the caller has not got yet when anything else uses the consumer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from bolide.client.consuming.process_queue import ProcessQueue
from bolide.client.messages.received import ReceivedMessage


class Lent:
    """An iterator over messages. `parts` contains the same messages by their queue, in the same order.

    Each message is removed by a single `popleft`, which is atomic: either the caller or `take_back` gets it.
    """

    __slots__ = ("_count", "_left", "_parts")

    def __init__(
        self, messages: list[ReceivedMessage], parts: Iterable[tuple[ProcessQueue, list[ReceivedMessage]]]
    ) -> None:
        self._left = deque(messages)
        self._count = len(messages)
        self._parts = [(process_queue, list(returned)) for process_queue, returned in parts]

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return self

    def __next__(self) -> ReceivedMessage:
        try:
            return self._left.popleft()
        except IndexError:
            raise StopIteration from None

    def take_back(self) -> list[ReceivedMessage]:
        """End the iteration and return the messages that the caller has not got. `consumed` does not count them."""
        left: list[ReceivedMessage] = []
        while self._left:
            try:
                left.append(self._left.popleft())
            except IndexError:  # another thread got the last message
                break
        self._count -= len(left)
        return left

    def consumed(self) -> list[tuple[ProcessQueue, int]]:
        """Return the queues of messages that the caller has finished, each with the offset of its first unfinished
        message, or -1 if all of its messages are finished. The caller still has the last message that it got."""
        finished = self._count - len(self._left) - 1
        ends: list[tuple[ProcessQueue, int]] = []
        for process_queue, messages in self._parts:
            if finished <= 0:
                break
            ends.append((process_queue, -1 if finished >= len(messages) else messages[finished].queue_offset))
            finished -= len(messages)
        return ends
