"""Concurrent consumption: messages of all queues go to listeners side by side (ConsumeMessageConcurrentlyService).

At most `concurrency` listener calls run at once. What a listener fails on is sent back to the broker before its offset
is let go, so a crash at any line repeats a message and never loses one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final

from bolide.client.consuming.consumption import ConsumeSetup
from bolide.client.consuming.membership import BROADCASTING
from bolide.client.consuming.process_queue import ProcessQueue
from bolide.client.consuming.send_back import send_back
from bolide.client.messages.begun import begun
from bolide.client.messages.listener import PIECE, Failed, ListenerCall
from bolide.client.messages.received import ReceivedMessage

log = logging.getLogger("bolide.client")

LATE_LEVEL: Final = 3
"""Delay level (10 s) of a message sent back because its listener took too long."""
LOCAL_RETRY: Final = 5.0
"""Seconds until a message is tried again here when no broker would take it back."""


class Block:
    """Messages of one pull that are given to listeners piece by piece."""

    __slots__ = ("call", "messages", "process_queue", "taken")

    def __init__(self, process_queue: ProcessQueue, call: ListenerCall, messages: list[ReceivedMessage]) -> None:
        self.process_queue = process_queue
        self.call = call
        self.messages = messages
        self.taken = 0


@dataclass(slots=True)
class Waiting:
    """Messages that a listener has since `began` (of the loop's clock); `run` says which of them failed."""

    messages: list[ReceivedMessage]
    began: float
    run: Awaitable[Failed]


class ConcurrentConsumption:
    """Workers come when there is work and go when there is none."""

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
        self._starting = False
        self._closing = False
        self._timers: set[asyncio.TimerHandle] = set()
        self._timeout = consume_timeout
        self._running: dict[int, tuple[float, ProcessQueue, list[ReceivedMessage]]] = {}
        self._started = 0
        self._watcher: asyncio.TimerHandle | None = None

    def put(self, process_queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Messages that were just pulled."""
        call = self._one_call(messages)
        if call is not None:
            self._ready.append(Block(process_queue, call, messages))
        else:  # a retry topic brings messages of several topics
            for message in messages:
                self._ready.append(Block(process_queue, self._call_of(message), [message]))
        self._ready_count += len(messages)
        self._start_worker()

    def _start_worker(self) -> None:
        if not self._starting and not self._closing and len(self._workers) < self._concurrency:
            self._starting = True
            worker = asyncio.get_running_loop().create_task(self._work(), name=f"bolide consume {self._member.group}")
            self._workers.add(worker)
            worker.add_done_callback(self._ended)

    def _ended(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        if not worker.cancelled() and (error := worker.exception()) is not None:
            log.error("a consume worker ended with %s", error, exc_info=error)
        if self._ready:
            self._start_worker()

    async def _work(self) -> None:
        self._starting = False
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
                if self._ready:
                    # Starts only once this worker waits for something: a quick listener needs no second one.
                    self._start_worker()
                await self._consume(block.process_queue, waiting)
            quick += count
            if quick >= 2 * PIECE:
                quick = 0
                await asyncio.sleep(0)  # a listener that never waits must not keep heartbeats from running

    def _give_singly(self, block: Block, most: int) -> tuple[int, Waiting | None]:
        """Give messages one by one to an async listener as long as it neither waits nor fails, `most` at a time.

        Returns how many it got, and the last one if it is not through with it. Such a listener needs no task, and a
        quick one makes up most of what a consumer does: here it costs little more than its own code.
        """
        time = asyncio.get_running_loop().time
        process_queue, listener = block.process_queue, block.call.listener
        first, through = block.taken, 0
        waiting: Waiting | None = None
        began = started = time()
        process_queue.begin()
        try:
            for message in block.messages[first : first + most]:
                block.taken += 1
                if process_queue.dropped:
                    continue
                started = time()
                run = begun(listener, message)
                if run is not None:
                    waiting = Waiting([message], started, run)
                    break
                through += 1
        finally:  # a listener may end this worker: it raises CancelledError to leave its message as it is
            given = block.taken - first
            self._ready_count -= given
            if block.taken == len(block.messages):
                self._ready.popleft()
            if through:
                self._done(process_queue, block.messages[first : first + through])
                now = time() if waiting is None else started
                self._member.stats.consumed_singly(process_queue.queue.topic, through, began, now)
            process_queue.end()
        return given, waiting

    def _take(self, block: Block) -> list[ReceivedMessage]:
        size = block.call.batch or max(1, min(PIECE, self._ready_count // self._concurrency))
        messages = block.messages[block.taken : block.taken + size]
        block.taken += len(messages)
        if block.taken == len(block.messages):
            self._ready.popleft()
        self._ready_count -= len(messages)
        return messages

    async def _consume(self, process_queue: ProcessQueue, waiting: Waiting) -> None:
        process_queue.begin()
        self._started = key = self._started + 1
        loop = asyncio.get_running_loop()
        messages, began = waiting.messages, waiting.began
        self._running[key] = (began, process_queue, messages)
        if self._watcher is None:
            self._watch()
        try:
            failed = await waiting.run
            self._member.stats.consumed(process_queue.queue.topic, len(messages), len(failed), began, loop.time())
            if key not in self._running:
                return  # it took too long: the messages were sent back meanwhile
            done = messages
            if failed and self._member.model != BROADCASTING:
                kept = await self._send_back(process_queue, failed)
                done = [message for message in messages if message not in kept]
            self._done(process_queue, done)
        finally:
            self._running.pop(key, None)
            process_queue.end()

    def _done(self, process_queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        offset = process_queue.done(messages)
        # A queue being given back still counts while it is ours: its successor then starts later.
        if offset >= 0 and (not process_queue.dropped or self._member.owned.get(process_queue.queue) is process_queue):
            self._member.store.update(process_queue.queue, offset)

    def _watch(self) -> None:
        """Send back what a listener has had for too long, so that a stuck call does not block a queue."""
        loop = asyncio.get_running_loop()
        self._watcher = loop.call_later(self._timeout / 10, self._watch)
        for key, (since, process_queue, messages) in list(self._running.items()):
            if loop.time() - since >= self._timeout and self._member.model != BROADCASTING:
                del self._running[key]
                log.warning("a listener has %r for more than %s s, it is sent back", messages[0], self._timeout)
                self._member.instance.spawn(self._send_back_late(process_queue, messages), "send back")

    async def _send_back_late(self, process_queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        for message in messages:
            if await send_back(self._member, message, LATE_LEVEL, self._max_times):
                self._done(process_queue, [message])

    async def _send_back(self, process_queue: ProcessQueue, failed: Failed) -> list[ReceivedMessage]:
        """Messages nobody took back stay here and are tried again in a while."""
        kept = []
        for message, delay_level in failed:
            if not await send_back(self._member, message, delay_level, self._max_times):
                message.reconsume_times += 1
                kept.append(message)
        if kept and not self._closing:
            loop = asyncio.get_running_loop()
            self._timers.add(loop.call_later(LOCAL_RETRY, self._again, process_queue, kept))
        return kept

    def _again(self, process_queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        self._timers = {timer for timer in self._timers if timer.when() > asyncio.get_running_loop().time()}
        if not self._closing and not process_queue.dropped:
            self.put(process_queue, messages)

    async def close(self) -> None:
        """Let the listeners that run finish; what none has seen yet is left to the next owner."""
        self._closing = True
        if self._watcher is not None:
            self._watcher.cancel()
        for timer in self._timers:
            timer.cancel()
        if self._workers:
            await asyncio.wait(list(self._workers))
        self._ready.clear()
