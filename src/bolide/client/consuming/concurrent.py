"""Concurrent consumption: listeners process messages of all queues in parallel (ConsumeMessageConcurrentlyService).

At most `concurrency` listener calls run at the same time. A failed message is sent back to the broker before its offset
is released, so a crash can repeat a message but never lose one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from msgspec import Struct, field

from bolide.client.consuming.consumption import ConsumeSetup
from bolide.client.consuming.membership import BROADCASTING
from bolide.client.consuming.process_queue import ProcessQueue
from bolide.client.consuming.send_back import send_back
from bolide.client.messages.begun import begun
from bolide.client.messages.listener import PIECE, Failed, ListenerCall
from bolide.client.messages.received import ReceivedMessage
from bolide.client.messages.user_code import enter

log = logging.getLogger("bolide.client")

LATE_LEVEL: Final = 3
"""Delay level (10 s) of a message that is sent back because its listener took too long."""
LOCAL_RETRY: Final = 5.0
"""Delay in seconds before a message is retried locally, if no broker accepted it or its worker was cancelled."""


class Block:
    """Messages of one pull that are passed to listeners in pieces."""

    __slots__ = ("call", "messages", "process_queue", "taken")

    def __init__(self, process_queue: ProcessQueue, call: ListenerCall, messages: list[ReceivedMessage]) -> None:
        self.process_queue = process_queue
        self.call = call
        self.messages = messages
        self.taken = 0


class Waiting(Struct):
    """Messages passed to a listener at `began` (loop time). `run` returns the failed messages."""

    messages: list[ReceivedMessage]
    began: float
    run: Awaitable[Failed]


class Running(Struct, eq=False):
    """A call of a listener. After `late_at` (loop time) the task `late` sends its messages back. `sent` contains the
    offsets of messages that a broker accepted. The call finishes the other messages."""

    process_queue: ProcessQueue
    messages: list[ReceivedMessage]
    late_at: float
    late: asyncio.Task[None] | None = None
    sent: set[int] = field(default_factory=set)

    def left(self, messages: Iterable[ReceivedMessage]) -> list[ReceivedMessage]:
        """Return the messages that were not sent back."""
        return [message for message in messages if message.queue_offset not in self.sent]


class ConcurrentConsumption:
    """Starts workers for new messages; a worker ends when all messages are processed."""

    def __init__(self, setup: ConsumeSetup, consume_timeout: float) -> None:
        self._member = setup.member
        self._call_of = setup.call_of
        self._one_call = setup.one_call
        self._concurrency = setup.concurrency
        self._max_times = setup.max_reconsume_times
        self._threads = setup.threads
        self._ready: deque[Block] = deque()
        self._ready_count = 0
        self._workers: set[asyncio.Task[None]] = set()
        self._starting: asyncio.Task[None] | None = None
        self._closing = False
        self._timers: set[asyncio.TimerHandle] = set()
        self._timeout = consume_timeout
        self._running: list[Running] = []
        self._watcher: asyncio.TimerHandle | None = None

    def put(self, process_queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Add messages that were just pulled."""
        call = self._one_call(messages)
        if call is not None:
            self._ready.append(Block(process_queue, call, messages))
        else:  # a retry topic contains messages of several topics
            for message in messages:
                self._ready.append(Block(process_queue, self._call_of(message), [message]))
        self._ready_count += len(messages)
        self._start_worker()

    def _start_worker(self) -> None:
        if self._ready and self._starting is None and not self._closing and len(self._workers) < self._concurrency:
            worker = asyncio.get_running_loop().create_task(self._work(), name=f"bolide consume {self._member.group}")
            self._starting = worker
            self._workers.add(worker)
            worker.add_done_callback(self._ended)

    def _ended(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        if self._starting is worker:  # it was cancelled before its first step
            self._starting = None
        if not worker.cancelled():
            error = worker.exception()
            if error is None:
                self._start_worker()
                return
            log.error("a consume worker ended with %r, and another worker starts", error, exc_info=error)
        self._after_pause(self._start_worker)

    async def _work(self) -> None:
        self._starting = None
        enter(self)
        quick = 0
        while self._ready and not self._closing:
            block = self._ready[0]
            if block.call.is_async and not block.call.batch:
                count, waiting = self._give_singly(block, 2 * PIECE - quick)
            else:
                messages = self._take(block)
                count, waiting = len(messages), None
                if not block.process_queue.dropped:
                    run = block.call.run(messages, self._threads)
                    waiting = Waiting(messages, asyncio.get_running_loop().time(), run)
            if waiting is not None:
                # Start another worker only when this one waits: a fast listener needs no second worker.
                self._start_worker()
                await self._consume(block.process_queue, waiting)
            quick += count
            if quick >= 2 * PIECE:
                quick = 0
                await asyncio.sleep(0)  # a listener that never waits must not block heartbeats

    def _give_singly(self, block: Block, most: int) -> tuple[int, Waiting | None]:
        """Pass messages one by one to an async listener while it neither waits nor fails, at most `most` messages.

        Returns the number of messages, and the last one if it is not finished. Such a call needs no task: a fast
        listener is the most frequent case, and costs little more here than its own code.
        """
        process_queue, clock = block.process_queue, asyncio.get_running_loop().time
        messages = block.messages[block.taken : block.taken + most]
        began = clock()
        process_queue.begin()
        try:
            through, run = begun(block.call.listener, messages, process_queue)
            given = len(messages) if run is None else through + 1  # a dropped queue's messages are not delivered
            block.taken += given
            self._ready_count -= given
            if block.taken == len(block.messages):
                self._ready.popleft()
            now = clock()
            if through:
                self._done(process_queue, messages[:through] if through < len(messages) else messages)
                self._member.stats.consumed_singly(process_queue.queue.topic, through, began, now)
        finally:
            process_queue.end()
        if run is None:
            return given, None
        # If there are earlier calls, their statistics include the time of the last call until it waited.
        return given, Waiting([messages[through]], now if through else began, run)

    def _take(self, block: Block) -> list[ReceivedMessage]:
        size = block.call.batch or max(1, min(PIECE, self._ready_count // self._concurrency))
        messages = block.messages[block.taken : block.taken + size]
        block.taken += len(messages)
        if block.taken == len(block.messages):
            self._ready.popleft()
        self._ready_count -= len(messages)
        return messages

    async def _consume(self, process_queue: ProcessQueue, waiting: Waiting) -> None:
        """Wait for a listener, then finish each message of its call: done, sent back,
        or scheduled for a local retry."""
        process_queue.begin()
        messages, began = waiting.messages, waiting.began
        running = Running(process_queue, messages, began + self._timeout)
        self._running.append(running)
        if self._watcher is None:
            self._watch()
        kept = messages
        try:
            failed = await waiting.run
            now = asyncio.get_running_loop().time()
            self._member.stats.consumed(process_queue.queue.topic, len(messages), len(failed), began, now)
            if self._member.model == BROADCASTING:
                failed = []
            kept = [message for message, _ in failed]
            if running.late is not None:
                await asyncio.wait([running.late])
            await self._send_back(running, failed)
        finally:
            self._running.remove(running)
            if running.late is not None:
                running.late.cancel()
            kept = running.left(kept)
            self._done(process_queue, [message for message in messages if message not in kept])
            self._later(process_queue, kept)
            process_queue.end()

    def _done(self, process_queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        offset = process_queue.done(messages)
        # A queue that is being released still stores offsets: its next consumer then starts at a later offset.
        if offset >= 0 and (not process_queue.dropped or self._member.owned.get(process_queue.queue) is process_queue):
            self._member.store.update(process_queue.queue, offset)

    def _watch(self) -> None:
        """Send back messages that a listener has had for too long, so that a stuck call does not block a queue."""
        loop = asyncio.get_running_loop()
        self._watcher = loop.call_later(self._timeout / 10, self._watch)
        if self._member.model == BROADCASTING:
            return
        for running in self._running:
            if running.late is not None or loop.time() < running.late_at or not running.left(running.messages):
                continue
            log.warning("a listener has %r for more than %s s, it is sent back", running.messages[0], self._timeout)
            running.late = self._member.instance.spawn(self._send_back_late(running), "send back")

    async def _send_back_late(self, running: Running) -> None:
        """Send back the messages of an overdue call. The call itself finishes messages that no broker accepted."""
        try:
            for message in running.left(running.messages):
                if await send_back(self._member, message, LATE_LEVEL, self._max_times):
                    running.sent.add(message.queue_offset)
                    self._done(running.process_queue, [message])
        finally:
            running.late = None
            running.late_at = asyncio.get_running_loop().time() + LOCAL_RETRY

    async def _send_back(self, running: Running, failed: Failed) -> None:
        """Send back the failed messages that were not sent back late."""
        for message, delay_level in failed:
            if message.queue_offset in running.sent:
                continue
            if await send_back(self._member, message, delay_level, self._max_times):
                running.sent.add(message.queue_offset)
            else:
                message.reconsume_times += 1

    def _later(self, process_queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Retry messages locally after a pause."""
        if messages:
            self._after_pause(lambda: self._again(process_queue, messages))

    def _after_pause(self, work: Callable[[], None]) -> None:
        if self._closing:
            return
        loop = asyncio.get_running_loop()
        self._timers = {timer for timer in self._timers if timer.when() > loop.time()}
        self._timers.add(loop.call_later(LOCAL_RETRY, work))

    def _again(self, process_queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        if not self._closing and not process_queue.dropped:
            self.put(process_queue, messages)

    async def close(self) -> None:
        """Wait for the running listeners. Unprocessed messages are left to the next assigned consumer."""
        self._closing = True
        if self._watcher is not None:
            self._watcher.cancel()
        for timer in self._timers:
            timer.cancel()
        if self._workers:
            await asyncio.wait(list(self._workers))
        self._ready.clear()
