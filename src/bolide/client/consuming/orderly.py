"""Orderly consumption: one listener call at a time per queue, in the order of offsets (ConsumeMessageOrderlyService).

A queue may be read only while this client holds its lock at the broker. A failed message is retried before later
messages of its queue, so they do not overtake it. A message whose body cannot be inflated or decoded becomes a dead
letter after 16 retries, also in a consumer without a limit.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from bolide.client.consuming.consumption import ConsumeSetup
from bolide.client.consuming.locks import LOCK_LIVES, HeldLocks
from bolide.client.consuming.process_queue import ProcessQueue
from bolide.client.consuming.send_back import DEFAULT_MAX_RECONSUME_TIMES, send_to_retry_topic
from bolide.client.messages.listener import DEAD_LETTER, PIECE
from bolide.client.messages.received import ReceivedMessage
from bolide.client.messages.user_code import enter
from bolide.errors import BolideError

log = logging.getLogger("bolide.client")

LOCK_RETRY: Final = 1.0
RESTART: Final = 1.0
"""Seconds until a queue whose task was cancelled or failed is consumed again."""


class OrderlyConsumption:
    """One task per queue with messages; at most `concurrency` listeners at the same time."""

    def __init__(self, setup: ConsumeSetup, locks: HeldLocks, suspend: float) -> None:
        self._member = setup.member
        self._call_of = setup.call_of
        self._free = asyncio.Semaphore(setup.concurrency)
        self._max_times = setup.max_reconsume_times
        self._threads = setup.threads
        self._locks = locks
        self._suspend = suspend
        self._closing = asyncio.Event()
        self._running: dict[ProcessQueue, asyncio.Task[None]] = {}

    def put(self, process_queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Add messages that were just pulled."""
        process_queue.waiting.extend(messages)
        if process_queue not in self._running and not self._closing.is_set():
            task = asyncio.get_running_loop().create_task(
                self._work(process_queue), name=f"bolide consume {process_queue.queue}"
            )
            self._running[process_queue] = task
            task.add_done_callback(lambda done: self._ended(process_queue, done))

    def _ended(self, process_queue: ProcessQueue, task: asyncio.Task[None]) -> None:
        self._running.pop(process_queue, None)
        if task.cancelled():
            pause = RESTART
        elif (error := task.exception()) is not None:
            log.error("consumption of %s ended with %r, restarting", process_queue.queue, error, exc_info=error)
            pause = RESTART
        else:
            pause = 0.0
        if process_queue.waiting and not process_queue.dropped and not self._closing.is_set():
            asyncio.get_running_loop().call_later(pause, self._restart, process_queue)

    def _restart(self, process_queue: ProcessQueue) -> None:
        if process_queue.waiting and not process_queue.dropped:
            self.put(process_queue, [])

    async def _work(self, process_queue: ProcessQueue) -> None:
        enter(self)
        while process_queue.waiting and not process_queue.dropped and not self._closing.is_set():
            if not await self._hold_lock(process_queue):
                await self._pause(LOCK_RETRY)
                continue
            async with self._free:
                if process_queue.dropped or self._closing.is_set():
                    return
                process_queue.begin()
                try:
                    failed = await self._consume(process_queue)
                finally:
                    process_queue.end()
            if failed:
                await self._pause(self._suspend)
            else:
                await asyncio.sleep(0)  # let other queues run

    async def _hold_lock(self, process_queue: ProcessQueue) -> bool:
        now = asyncio.get_running_loop().time()
        if process_queue.locked and now - process_queue.locked_at < LOCK_LIVES:
            return True
        return await self._locks.lock(process_queue)

    async def _consume(self, process_queue: ProcessQueue) -> bool:
        """Pass the next messages to the listener. Return whether the first remaining message must be retried."""
        waiting = process_queue.waiting
        call = self._call_of(waiting[0])
        messages = [waiting.popleft()]
        size = call.batch or PIECE
        if messages[0].reconsume_times and not messages[0].readable:
            size = 1
        for _ in range(min(size - 1, len(waiting))):
            if self._call_of(waiting[0]) is not call:
                break
            if messages[0].reconsume_times and not waiting[0].readable:
                break  # it may be the cause of the failure, so it gets its own call
            messages.append(waiting.popleft())
        loop = asyncio.get_running_loop()
        began = loop.time()
        ended = 0
        try:
            count, level = await call.run_in_order(
                messages, self._threads, lambda: process_queue.dropped or self._closing.is_set()
            )
            ended = count
            failed = level is not None
            self._member.stats.consumed(process_queue.queue.topic, count + failed, int(failed), began, loop.time())
            if level is not None and await self._give_up(messages[count], level):
                ended += 1
                level = None
        finally:  # whatever ended this task, unfinished messages return to the front of the queue
            if not process_queue.dropped or self._member.owned.get(process_queue.queue) is process_queue:
                offset = process_queue.done(messages[:ended])
                if offset >= 0:
                    self._member.store.update(process_queue.queue, offset)
                waiting.extendleft(reversed(messages[ended:]))
        return level is not None and not process_queue.dropped

    async def _give_up(self, message: ReceivedMessage, level: int) -> bool:
        """Count a failed attempt. Return True if it was the last and
        the message was sent to the retry topic or dead letters."""
        message.reconsume_times += 1
        limit = self._max_times
        if limit < 0 and not message.readable:  # no retry can succeed, so the queue would be stuck
            limit = DEFAULT_MAX_RECONSUME_TIMES
        spent = limit >= 0 and message.reconsume_times > limit
        if not spent and level != DEAD_LETTER:
            return False
        try:
            await send_to_retry_topic(self._member, message, limit if spent else 0)
            return True
        except BolideError as error:
            log.warning("%r is out of retries, and could not be sent to the retry topic: %s", message, error)
            return False

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            pass

    async def close(self) -> None:
        """Wait for the running listeners. Remaining messages are left to the next assigned consumer."""
        self._closing.set()
        if self._running:
            await asyncio.wait(list(self._running.values()))
