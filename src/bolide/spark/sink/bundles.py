"""Messages that a task sends together, as one request with a batch or as a run of requests with one message each."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bolide.remoting.batch import BatchMessage, decode_batch
from bolide.spark.sink.elements import NO_TIME, Elements, Ints
from bolide.spark.sink.messages import Refusal, RowOrigin
from bolide.spark.source.queues import Queue
from bolide.transport.blocking import ClientConnection, Pending, PendingRun


@dataclass(slots=True)
class Bundle:
    """Messages of a queue that are sent together."""

    queue: Queue
    single: bool
    """Whether each message is sent in a separate request."""
    keyed: bool = False
    """Whether a key determined the queue of any message."""
    numbered: bool = False
    """Whether the row of any message specifies the queue."""
    parts: list[bytes | memoryview] = field(default_factory=list)
    """Elements of the messages, in order."""
    origins: list[tuple[RowOrigin, Ints, Ints]] = field(default_factory=list)
    """The rows of the messages, with their born timestamps."""
    count: int = 0
    size: int = 0
    deadline: float = 0.0
    tries: int = 0
    due: float = 0.0
    pending: Pending | None = None
    run: PendingRun | None = None
    connection: ClientConnection | None = None
    reason: str = ""

    @property
    def requests(self) -> int:
        """Number of requests to send."""
        return self.count if self.single else 1

    @property
    def first_row(self) -> int:
        """Row number of the first message."""
        return int(self.origins[0][1][0])

    def add(self, elements: Elements, begin: int, end: int, part: memoryview) -> None:
        """Append elements `begin` to `end`, whose bytes are `part`."""
        hashes, numbers = elements.hashes, elements.numbers
        self.keyed |= hashes is not None and bool((hashes[begin:end] >= 0).any())
        self.numbered |= numbers is not None and bool((numbers[begin:end] >= 0).any())
        rows = elements.rows[begin:end]
        born = np.full(end - begin, NO_TIME) if elements.born is None else elements.born[begin:end]
        self.origins.append((elements.origin, rows, born))
        self.parts.append(part)
        self.count += end - begin
        self.size += len(part)

    def body(self) -> bytes:
        """Return the concatenated elements."""
        if len(self.parts) != 1 or not isinstance(self.parts[0], bytes):
            self.parts = [b"".join(self.parts)]
        return bytes(self.parts[0])

    def messages(self) -> list[BatchMessage]:
        """Return the messages."""
        return decode_batch(self.body())

    def born(self) -> list[int]:
        """Return the born timestamp of each message in ms since 1970, or `NO_TIME`."""
        return [each for _, _, born in self.origins for each in born.tolist()]

    def singles(self, places: list[int] | None = None) -> Bundle:
        """Return a bundle that sends the messages at these indexes, or all, separately. Keeps deadline and tries."""
        wanted = range(self.count) if places is None else places
        body, ends, at = self.body(), [0], 0
        while at < len(body):
            at += int.from_bytes(body[at : at + 4], "big")
            ends.append(at)
        some = Bundle(self.queue, True, self.keyed, self.numbered, deadline=self.deadline, tries=self.tries)
        some.parts = [b"".join([body[ends[place] : ends[place + 1]] for place in wanted])]
        some.size = len(some.parts[0])
        some.count = len(wanted)
        some.reason = self.reason
        begin = 0
        for origin, rows, born in self.origins:
            where = np.array([place - begin for place in wanted if begin <= place < begin + len(rows)], np.int64)
            if len(where):
                some.origins.append((origin, rows[where], born[where]))
            begin += len(rows)
        return some

    def refusal(self, place: int, reason: str, *, of_the_row: bool) -> Refusal:
        """Return the refusal of the message at an index."""
        for origin, rows, _ in self.origins:
            if place < len(rows):
                return origin.refusal(int(rows[place]), self.queue.topic, reason, of_the_row=of_the_row)
            place -= len(rows)
        raise IndexError(place)
