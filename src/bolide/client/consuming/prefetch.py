"""The prefetch of a pull consumer: a background pull for each queue, and a cache of messages for polls.

Polls return messages of the queues in turn, so that a full queue does not starve the others. Returned messages stay
marked as delivered until the consumer reports that they are consumed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from bolide.client.consuming.flow_options import FlowControl
from bolide.client.consuming.group_member import GroupMember
from bolide.client.consuming.lent import Lent
from bolide.client.consuming.message_filter import FilterMessageHook, wanted_messages
from bolide.client.consuming.pausing import PausedQueues
from bolide.client.consuming.process_queue import ProcessQueue
from bolide.client.consuming.pull import (
    REPLICA_PAUSE,
    PullRequest,
    PullResult,
    PullStatus,
    moved_after,
    pull_or_restart,
)
from bolide.client.instance.background_tasks import KeptTask, end_kept
from bolide.client.messages.codec import Codec
from bolide.client.messages.errors import raise_again
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.received import ReceivedMessage
from bolide.client.messages.subscription import Subscription
from bolide.errors import BolideError
from bolide.layout.names import MASTER_ID

log = logging.getLogger("bolide.client")

POLLS_KEPT: Final = 16
"""Number of latest polls whose messages `give_back` accepts, and so of threads that can share a consumer."""
PULL_FAILED_PAUSE: Final = 1.0


class Prefetch:
    """The queues of one pull consumer. `suspend` is the time in seconds that a pull may wait at its broker. `assigned`
    is the filter for queues that the caller assigned, `codec_of` returns the codec of a queue. With `auto_commit`, an
    iterator consumes each message when it continues with the next."""

    assigned: Subscription | None = None
    ended = False

    def __init__(
        self,
        member: GroupMember,
        flow: FlowControl,
        suspend: float,
        codec_of: Callable[[MessageQueue], Codec | None],
        filters: tuple[FilterMessageHook, ...],
        auto_commit: bool = True,
    ) -> None:
        self.member = member
        self._flow = flow
        self._suspend = suspend
        self._codec_of = codec_of
        self._filters = filters
        self._auto_commit = auto_commit
        self._lent: Lent | None = None
        """The messages of the iterator that requested messages last."""
        self._arrived = asyncio.Event()
        self._pulls: dict[ProcessQueue, KeptTask] = {}
        self._delivered: set[ProcessQueue] = set()
        self._polls: deque[list[tuple[ProcessQueue, list[ReceivedMessage]]]] = deque(maxlen=POLLS_KEPT)
        self._paused = PausedQueues()
        self._turn = 0

    # -- for polls

    async def messages(self, timeout: float, max_messages: int) -> list[ReceivedMessage]:
        """Return up to `max_messages` messages, or [] after `timeout` seconds or once the consumer has closed.

        Raises `ResponseError` instead of returning [] if a broker rejects the group or its expression, and immediately
        if brokers reject all queues.
        """
        self.settle()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            messages = self._take(max_messages)
            left = deadline - loop.time()
            if messages or self.ended:
                return messages
            refusal = self.member.refusal(some=left <= 0)
            if refusal is not None:
                raise_again(refusal)
            if left <= 0:
                return []
            self._arrived.clear()
            try:
                async with asyncio.timeout(left):
                    await self._arrived.wait()
            except TimeoutError:
                continue

    def _take(self, max_messages: int) -> list[ReceivedMessage]:
        process_queues = [
            process_queue
            for queue, process_queue in self.member.owned.items()
            if process_queue.waiting and queue not in self._paused
        ]
        taken: list[ReceivedMessage] = []
        parts: list[tuple[ProcessQueue, list[ReceivedMessage]]] = []
        self._turn += 1
        for step in range(len(process_queues)):
            process_queue = process_queues[(self._turn + step) % len(process_queues)]
            waiting = process_queue.waiting
            count = min(max_messages - len(taken), len(waiting))
            messages = [waiting.popleft() for _ in range(count)]
            if messages:
                process_queue.give_out(messages)
                self._delivered.add(process_queue)
                parts.append((process_queue, messages))
                taken += messages
        if parts:
            self._polls.append(parts)
        return taken

    def give_back(self, messages: list[ReceivedMessage]) -> None:
        """Return messages that the caller of the poll did not receive to the front of their queues.

        Ignores messages of polls before the latest `POLLS_KEPT`.
        """
        back = set(map(id, messages))
        for poll in self._polls:
            for process_queue, returned in poll:
                process_queue.take_back([message for message in returned if id(message) in back])
                returned[:] = [message for message in returned if id(message) not in back]  # the next poll lists them
        self._arrived.set()

    def lend(self, messages: list[ReceivedMessage]) -> Lent:
        """Return an iterator over the messages that the last poll returned. It ends at the next `settle`."""
        self._lent = lent = Lent(messages, self._polls[-1] if messages else ())
        return lent

    def settle(self) -> None:
        """Return the messages that an iterator has not returned to the front of their queues."""
        lent = self._lent
        if lent is not None:
            left = lent.take_back()
            self.note_progress()
            self._lent = None
            if left:
                self.give_back(left)

    def note_progress(self) -> None:
        """Mark the messages that the caller of an iterator has finished as consumed."""
        lent = self._lent
        if lent is None or not self._auto_commit:
            return
        for process_queue, before in lent.consumed():
            if not process_queue.dropped:
                self.member.store.update(process_queue.queue, process_queue.consumed(before))

    def consumed(self) -> None:
        """Mark the messages returned so far as consumed."""
        self.settle()
        self._polls.clear()
        delivered, self._delivered = self._delivered, set()
        for process_queue in delivered:
            if not process_queue.dropped:
                self.member.store.update(process_queue.queue, process_queue.consumed())

    def end(self) -> None:
        """Make a waiting poll return, and end an iteration."""
        self.settle()
        self.ended = True
        self._arrived.set()

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Stop returning messages of these queues, or of all, until `resume`."""
        self.settle()
        self._paused.pause(queues)

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Return messages of these queues, or of all, again."""
        self._paused.resume(queues)
        self._arrived.set()

    async def seek(self, process_queue: ProcessQueue, offset: int) -> None:
        """Continue from `offset`, and drop prefetched messages."""
        self.settle()
        task = self._pulls.pop(process_queue, None)
        if task is not None:
            await end_kept([task])
        self._delivered.discard(process_queue)
        process_queue.clear()
        process_queue.next_offset = offset
        self._start(process_queue)

    # -- assigned and released queues

    async def gained(self, process_queue: ProcessQueue) -> bool:
        """Prepare a queue: set its start offset."""
        process_queue.next_offset = await self.member.offsets.start_offset(process_queue.queue)
        return True

    def begin(self, process_queue: ProcessQueue) -> None:
        """Start fetching an assigned queue, unless `seek` has already started it."""
        if process_queue not in self._pulls:
            self._start(process_queue)

    def _start(self, process_queue: ProcessQueue) -> None:
        task = self.member.instance.keep(lambda: self._pull_loop(process_queue), f"pull {process_queue.queue}")
        self._pulls[process_queue] = task

    async def lost(self, process_queue: ProcessQueue) -> None:
        """Stop fetching a queue. Its next consumer gets the messages that were returned but not committed."""
        await self.member.queue_calls.revoked(process_queue.queue)
        self.settle()
        process_queue.drop()
        self._delivered.discard(process_queue)
        task = self._pulls.pop(process_queue, None)
        if task is not None:
            task.cancel()

    # -- fetching

    async def _pull_loop(self, process_queue: ProcessQueue) -> None:
        queue = process_queue.queue
        while not process_queue.dropped:
            process_queue.limit(self._flow, len(self.member.owned))
            await self.member.room.wait_for_room(process_queue)
            wanted = self.assigned or self.member.subscriptions.get(queue.topic)
            if process_queue.dropped or wanted is None:
                return
            process_queue.last_pull = asyncio.get_running_loop().time()
            request = PullRequest(
                self.member.group,
                queue,
                process_queue.next_offset,
                wanted,
                process_queue.pull_count(self._flow),
                self._suspend,
                broker_id=process_queue.suggested_broker,
                lite=True,
            )
            try:
                result = await pull_or_restart(self.member.instance, request, process_queue.last_stored)
            except BolideError as error:
                self.member.instance.troubles.begin(("pull", queue), f"a pull of {queue} failed", error)
                process_queue.pull_failed(error)
                if process_queue.refusal is not None:
                    self._arrived.set()
                moved = await moved_after(self.member.instance, request, error)
                process_queue.suggested_broker = MASTER_ID
                if not moved:
                    await asyncio.sleep(PULL_FAILED_PAUSE)
                continue
            process_queue.refusal = None
            if self.member.instance.troubles.open:
                self.member.instance.troubles.over(("pull", queue))
            if result.messages:
                now = asyncio.get_running_loop().time()
                self.member.stats.pulled(queue.topic, len(result.messages), process_queue.last_pull, now)
            if not process_queue.dropped:
                self._pulled(process_queue, result)
                if self._flow.pull_interval and result.status is PullStatus.FOUND:
                    await asyncio.sleep(self._flow.pull_interval)
                elif result.idle_replica:
                    await asyncio.sleep(REPLICA_PAUSE)

    def _pulled(self, process_queue: ProcessQueue, result: PullResult) -> None:
        process_queue.suggested_broker = result.suggested_broker
        asked, process_queue.next_offset = process_queue.next_offset, result.next_offset
        if result.status is PullStatus.OFFSET_ILLEGAL:
            self.settle()
            process_queue.next_offset = offset = process_queue.restart_at(asked, result.next_offset)
            log.warning("%s continues at offset %d", process_queue.queue, offset)
            self._delivered.discard(process_queue)
            process_queue.clear()
            self.member.store.update(process_queue.queue, offset)
            return
        if result.messages:
            codec = self._codec_of(process_queue.queue)
            for message in result.messages:
                message.codec = codec
            kept, dropped = wanted_messages(result.messages, self._filters, lambda message: codec)
            process_queue.add(result.messages)
            if dropped:
                self.member.store.update(process_queue.queue, process_queue.done(dropped))
            if kept:
                process_queue.waiting.extend(kept)
                self._arrived.set()
        elif process_queue.moved_to(result.next_offset):
            self.member.store.update(process_queue.queue, result.next_offset)
