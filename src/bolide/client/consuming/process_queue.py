"""ProcessQueue: the pulled but unfinished messages of one queue (RocketMQ's ProcessQueue).

Its invariant: the offset to commit is the offset of the oldest unfinished message, so that a crash repeats messages but
never skips one. Flow control is based on the messages that are cached here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice

from bolide.client.consuming.flow_options import DEFAULT_FLOW, FlowControl
from bolide.client.messages.errors import ResponseError, refusal_of
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.received import ReceivedMessage
from bolide.errors import BolideError
from bolide.remoting.bulk_pulls import SMALL_PULL


class ProcessQueue:
    """One queue assigned to this consumer. Offsets are queue offsets; times are loop times in seconds."""

    def __init__(self, queue: MessageQueue, orderly: bool = False) -> None:
        self.queue = queue
        self.orderly = orderly
        self.dropped = False
        self.refusal: ResponseError | None = None
        """The rejection of the last pull; reset by the next successful pull."""
        self.refused_at = 0.0
        """Time of the first pull that was rejected with `refusal` or an error like it."""
        self.locked = False
        self.locked_at = 0.0
        self.next_offset = -1
        self.last_pull = 0.0
        self.last_stored = 0
        """Store time of the newest pulled message in ms since 1970, or 0."""
        self.last_consume = 0.0
        self.suggested_broker = 0
        self.cached_bytes = 0
        self.waiting: deque[ReceivedMessage] = deque()
        """Messages not passed to a listener yet; used by orderly and pull consumers."""
        self.max_count = DEFAULT_FLOW.max_cached
        self.max_bytes = DEFAULT_FLOW.max_cached_bytes
        self.max_span = DEFAULT_FLOW.max_span
        self._count_shared = self._bytes_shared = False
        self._order: deque[int] = deque()
        self._done: set[int] = set()
        self._last = -1
        self._returned = -1
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._room = asyncio.Event()
        self._room.set()
        self._empty = asyncio.Event()
        self._empty.set()

    def pull_failed(self, error: BolideError) -> None:
        """Called when the last pull has failed."""
        refusal = refusal_of(error)
        if self.refusal is None:
            self.refused_at = self.last_pull
        self.refusal = refusal

    @property
    def last_unrefused_pull(self) -> float:
        """Time of the last pull, without the rejected pulls after `refused_at`."""
        return self.last_pull if self.refusal is None else self.refused_at

    @property
    def cached_count(self) -> int:
        """Number of pulled but unfinished messages."""
        return len(self._order) - len(self._done)

    @property
    def commit_offset(self) -> int:
        """The offset at which the next assigned consumer must start, or -1 if it is not known yet."""
        if self._returned >= 0:
            return self._returned
        return self._order[0] if self._order else self._last + 1 if self._last >= 0 else -1

    @property
    def offsets(self) -> tuple[int, int]:
        """Offsets of the oldest unfinished message and of the newest pulled one, or (0, 0) if no message is cached."""
        return (self._order[0], self._last) if self._order else (0, 0)

    def add(self, messages: list[ReceivedMessage]) -> None:
        """Add messages, in the order of their offsets."""
        records = [message.record for message in messages]
        self._order.extend([record.queue_offset for record in records])
        for record in records:
            self.cached_bytes += len(record.body)
        if messages:
            self._last = messages[-1].record.queue_offset
            self.last_stored = messages[-1].record.store_timestamp
            self._empty.clear()
            self._note_room()

    def done(self, messages: list[ReceivedMessage]) -> int:
        """Remove messages that were consumed or sent back. Ignores messages that are already removed. Return the offset
        to commit."""
        finished = self._done
        order = self._order
        records = [message.record for message in messages]
        if not finished and [record.queue_offset for record in records] == list(islice(order, len(records))):
            # the usual case: the oldest messages, in order
            for record in records:
                self.cached_bytes -= len(record.body)
                order.popleft()
            records = []
        for record in records:
            offset = record.queue_offset
            if offset in finished or not order or offset < order[0]:
                continue  # a listener finished after its overdue message had been sent back
            self.cached_bytes -= len(record.body)
            if offset == order[0]:
                order.popleft()
            else:
                finished.add(offset)
        while order and order[0] in finished:
            finished.discard(order.popleft())
        if not order:
            self._empty.set()
        if not self._room.is_set():  # fewer messages are cached than before, so an open queue stays open
            self._note_room()
        return self.commit_offset

    def give_out(self, messages: list[ReceivedMessage]) -> None:
        """Remove the oldest messages from the cache, because a poll returns them. `commit_offset` stays at the first of
        them until `consumed`. Flow control ignores them, as in RocketMQ's lite pull consumer: otherwise a caller that
        never commits would stop after one full cache."""
        if messages and self._returned < 0:
            self._returned = messages[0].record.queue_offset
        self.done(messages)

    def take_back(self, messages: list[ReceivedMessage]) -> None:
        """Return messages of one `give_out` to the front of the cache, because the caller did not receive them. Skips
        messages that were consumed or cleared since."""
        back = [message for message in messages if 0 <= self._returned <= message.record.queue_offset]
        if not back:
            return
        if back[0].record.queue_offset == self._returned:
            self._returned = -1
        self._order.extendleft([message.record.queue_offset for message in reversed(back)])
        self.waiting.extendleft(reversed(back))
        for message in back:
            self.cached_bytes += len(message.record.body)
        self._empty.clear()
        self._note_room()

    def consumed(self, before: int = -1) -> int:
        """Mark all messages that polls returned as consumed, or those `before` an offset of one of them. Return the
        offset to commit."""
        if before < 0 or self._returned >= 0:
            self._returned = before
        return self.commit_offset

    def moved_to(self, offset: int) -> bool:
        """Skip to `offset`: the pull found no message before it. Return False if other messages are unfinished."""
        if self._order or self._returned >= 0:
            return False
        self._last = offset - 1
        return True

    def restart_at(self, asked: int, offset: int) -> int:
        """Return the offset to resume at, after the broker responded to a pull of `asked` with another `offset`.

        If the offset moved back, resume at the oldest unfinished message at the latest. A new master's log may end
        earlier than the old master's, and the unfinished messages in it would otherwise be skipped, as in RocketMQ's
        client.
        """
        left = self.commit_offset
        return left if 0 <= left < offset < asked else offset

    def clear(self) -> None:
        """Remove all messages, because the next pull starts at another offset."""
        self._order.clear()
        self._done.clear()
        self.waiting.clear()
        self.cached_bytes = 0
        self._last = self._returned = -1
        self._empty.set()
        self._note_room()

    def drop(self) -> None:
        """Mark the queue as no longer assigned: pulls and commits stop, and waiting calls return."""
        self.dropped = True
        self._room.set()
        self._empty.set()

    def limit(self, flow: FlowControl, queues: int) -> None:
        """Set the limits of this queue. `queues` queues share the limits of the topic."""
        share = max(1, queues)
        count, size = flow.max_cached_for_topic, flow.max_cached_bytes_for_topic
        self.max_count = flow.max_cached if count < 0 else max(1, count // share)
        self.max_bytes = flow.max_cached_bytes if size < 0 else max(1, size // share)
        self.max_span = flow.max_span
        self._count_shared, self._bytes_shared = count >= 0, size >= 0
        self._note_room()

    def pull_count(self, flow: FlowControl) -> int:
        """Return the number of messages to request in one pull. A large pull does not exceed a small cache."""
        return min(flow.pull_batch, max(SMALL_PULL, self.max_count))

    async def wait_for_room(self) -> None:
        """Wait until the cache is below its limits, or the queue is dropped."""
        await self._room.wait()

    async def wait_empty(self) -> None:
        """Wait until all pulled messages are finished, or the queue is dropped."""
        await self._empty.wait()

    def begin(self) -> None:
        """Called when a listener starts with messages of this queue."""
        self._running += 1
        self._idle.clear()

    def end(self) -> None:
        """Called when that listener has finished and its outcome is recorded."""
        self._running -= 1
        if not self._running:
            self._idle.set()

    async def wait_idle(self) -> None:
        """Wait until no listener has messages of this queue."""
        await self._idle.wait()

    @property
    def has_room(self) -> bool:
        """Whether the queue may be pulled: no limit is reached, or the queue is dropped."""
        return self._room.is_set()

    def limit_reached(self) -> str:
        """Return the consumer's option whose limit is reached, or "" if there is room."""
        if self.cached_count >= self.max_count:
            return "max_cached_for_topic" if self._count_shared else "max_cached"
        if self.cached_bytes >= self.max_bytes:
            return "max_cached_bytes_for_topic" if self._bytes_shared else "max_cached_bytes"
        if not self.orderly and self._order and self._last - self._order[0] > self.max_span:
            return "max_span"
        return ""

    def show_limit(self, option: str) -> str:
        """Return the option with its value, or with this queue's share of it."""
        if option == "max_span":
            return f"{option} {self.max_span}"
        limit = self.max_bytes if option.startswith("max_cached_bytes") else self.max_count
        return f"{option}, of which this queue has {limit}," if option.endswith("_for_topic") else f"{option} {limit}"

    def _note_room(self) -> None:
        if self.limit_reached() and not self.dropped:
            self._room.clear()
        else:
            self._room.set()
