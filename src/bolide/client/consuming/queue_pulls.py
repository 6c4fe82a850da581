"""The queues of a push consumer: assigned, pulled by consecutive long polls, released or restarted.

One task per queue keeps a pull at its broker; flow control and pauses delay the next pull.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from bolide.client.consuming.consumption import Consumption
from bolide.client.consuming.flow_options import FlowControl
from bolide.client.consuming.group_member import GroupMember
from bolide.client.consuming.locks import HeldLocks
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
from bolide.client.instance.background_tasks import KeptTask
from bolide.client.messages.codec import Codec
from bolide.client.messages.errors import ClientStateError, ResponseError
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.received import ReceivedMessage, show_origin
from bolide.errors import BolideError
from bolide.layout.names import MASTER_ID, RETRY_PREFIX
from bolide.remoting import codes

log = logging.getLogger("bolide.client")

PULL_FAILED_PAUSE: Final = 3.0
FLOW_CONTROL_PAUSE: Final = 0.02
NOT_LOCKED_PAUSE: Final = 3.0
HAND_OVER: Final = 1.0
"""Seconds that a released queue waits for its running listeners; an orderly queue waits longer."""
HAND_OVER_ORDERLY: Final = 20.0


class PullSettings(Struct, frozen=True):
    """`suspend` is the waiting time of a pull at its broker, in seconds. `filters` drop messages before delivery."""

    flow: FlowControl
    suspend: float
    send_subscription: bool
    filters: tuple[FilterMessageHook, ...]


class QueuePulls:
    """The pulls of one group member. Implements `QueueOwner`. `consumption` processes the messages. `codec_of` returns
    the codec of a message for the filters.

    With `locks`, for an orderly consumer, a queue is pulled only while its lock is held.
    """

    def __init__(
        self,
        member: GroupMember,
        settings: PullSettings,
        consumption: Consumption,
        codec_of: Callable[[ReceivedMessage], Codec | None],
        locks: HeldLocks | None = None,
    ) -> None:
        self.member = member
        self._settings = settings
        self._consumption = consumption
        self._codec_of = codec_of
        self._locks = locks
        self._tasks: dict[ProcessQueue, KeptTask] = {}
        self._paused = PausedQueues()

    # -- control

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Stop pulling these queues, or all, until `resume`; pulls in flight may still return messages."""
        self._paused.pause(queues)

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Resume pulling these queues, or all."""
        self._paused.resume(queues)
        for process_queue in self.member.owned.values():
            if process_queue not in self._tasks and not process_queue.dropped:
                self._start(process_queue)

    @property
    def paused(self) -> bool:
        """Whether all held queues are paused."""
        return all(queue in self._paused for queue in self.member.owned)

    def stop(self) -> None:
        """Abandon the pulls in flight: the next consumer pulls their messages."""
        for task in list(self._tasks.values()):
            task.cancel()

    async def drain(self) -> None:
        """Pause, abandon the pulls in flight, and wait until the listeners have finished all pulled messages."""
        self.pause()
        self.stop()
        await asyncio.gather(*(process_queue.wait_empty() for process_queue in self.member.owned.values()))

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue from `offset`, once the listeners have finished their messages of the queue.

        Raises `ClientStateError` if the queue is not held.
        """
        process_queue = self.member.owned.get(queue)
        if process_queue is None:
            raise ClientStateError(f"{queue} is not held by this consumer of {self.member.group}, see assignment()")
        task = self._tasks.pop(process_queue, None)
        if task is not None:
            task.cancel()
        await self._begin_anew(process_queue, lambda: offset)

    # -- assigned and released queues

    async def gained(self, process_queue: ProcessQueue) -> bool:
        """Prepare an assigned queue: lock it for an orderly consumer, and load its start offset. Return False if
        another member still holds its lock."""
        try:
            if self._locks is not None and not await self._locks.lock(process_queue):
                return False
            process_queue.next_offset = await self.member.offsets.start_offset(process_queue.queue)
        except BaseException:
            if self._locks is not None:
                await self._locks.unlock(process_queue.queue)
            raise
        return True

    def begin(self, process_queue: ProcessQueue) -> None:
        """Start to pull an assigned queue, unless `resume` has already started it."""
        if process_queue not in self._tasks:
            self._start(process_queue)

    def _start(self, process_queue: ProcessQueue) -> None:
        def ended() -> None:
            if self._tasks.get(process_queue) is task:
                del self._tasks[process_queue]

        name = f"pull {process_queue.queue}"
        task = self.member.instance.keep(lambda: self._pull_loop(process_queue), name, ended)
        self._tasks[process_queue] = task

    def note_progress(self) -> None:
        """Do nothing: a listener that has finished has already moved its offset."""

    async def lost(self, process_queue: ProcessQueue) -> None:
        """Stop pulling a released queue. Waits a limited time for its listeners."""
        process_queue.drop()
        task = self._tasks.pop(process_queue, None)
        if task is not None:
            task.cancel()
        patience = HAND_OVER_ORDERLY if self._locks is not None else HAND_OVER
        try:
            async with asyncio.timeout(patience):
                await process_queue.wait_idle()
        except TimeoutError:
            log.warning("%s goes to another member while a listener still has messages of it", process_queue.queue)
        await self.member.queue_calls.revoked(process_queue.queue)
        if self._locks is not None:
            await self.member.store.persist([process_queue.queue], wait=True)
            await self._locks.unlock(process_queue.queue)

    # -- pulling

    async def _pull_loop(self, process_queue: ProcessQueue) -> None:
        loop = asyncio.get_running_loop()
        member, settings = self.member, self._settings
        sharing = -1
        while not process_queue.dropped:
            if sharing != len(member.owned):
                sharing = len(member.owned)
                process_queue.limit(settings.flow, sharing)
            if not process_queue.has_room:
                await member.room.wait_for_room(process_queue)
            if process_queue.queue in self._paused:
                await self._paused.wait(process_queue.queue)
            wanted = member.subscriptions.get(process_queue.queue.topic)
            if process_queue.dropped or wanted is None:
                return
            if self._locks is not None and not process_queue.locked:  # another member has the lock
                await asyncio.sleep(NOT_LOCKED_PAUSE)
                continue
            process_queue.last_pull = loop.time()
            request = PullRequest(
                member.group,
                process_queue.queue,
                process_queue.next_offset,
                wanted,
                process_queue.pull_count(settings.flow),
                settings.suspend,
                member.store.carry(process_queue.queue),
                process_queue.suggested_broker,
                send_subscription=settings.send_subscription,
            )
            try:
                result = await pull_or_restart(member.instance, request, process_queue.last_stored)
            except BolideError as error:
                process_queue.pull_failed(error)
                pause = self._pause_after(error, process_queue.queue)
                moved = await moved_after(member.instance, request, error)
                process_queue.suggested_broker = MASTER_ID
                if not moved:
                    await asyncio.sleep(pause)
                continue
            process_queue.refusal = None
            if member.instance.troubles.open:
                member.instance.troubles.over(("pull", process_queue.queue))
            member.store.carried(process_queue.queue)
            if result.messages:
                member.stats.pulled(
                    process_queue.queue.topic, len(result.messages), process_queue.last_pull, loop.time()
                )
            if not process_queue.dropped:
                await self._pulled(process_queue, result)
                if settings.flow.pull_interval and result.status is PullStatus.FOUND:
                    await asyncio.sleep(settings.flow.pull_interval)
                elif result.idle_replica:
                    await asyncio.sleep(REPLICA_PAUSE)

    def _pause_after(self, error: BolideError, queue: MessageQueue) -> float:
        if isinstance(error, ResponseError) and error.code == codes.FLOW_CONTROL:
            return FLOW_CONTROL_PAUSE
        self.member.instance.troubles.begin(("pull", queue), f"a pull of {queue} failed", error)
        return PULL_FAILED_PAUSE

    async def _pulled(self, process_queue: ProcessQueue, result: PullResult) -> None:
        process_queue.suggested_broker = result.suggested_broker
        asked, process_queue.next_offset = process_queue.next_offset, result.next_offset
        if result.status is PullStatus.OFFSET_ILLEGAL:
            offset = result.next_offset
            await self._begin_anew(process_queue, lambda: process_queue.restart_at(asked, offset))
            return
        if process_queue.queue.topic.startswith(RETRY_PREFIX):
            for message in result.messages:
                show_origin(message, self.member.options.namespace)
        if result.messages:
            kept, dropped = wanted_messages(result.messages, self._settings.filters, self._codec_of)
            process_queue.add(result.messages)
            if dropped:
                self.member.store.update(process_queue.queue, process_queue.done(dropped))
            if kept:
                process_queue.last_consume = process_queue.last_pull
                self._consumption.put(process_queue, kept)
        elif process_queue.moved_to(result.next_offset):
            self.member.store.update(process_queue.queue, result.next_offset)

    async def _begin_anew(self, process_queue: ProcessQueue, offset: Callable[[], int]) -> None:
        fresh = await self.member.begin_anew(process_queue, offset)
        if fresh is not None:
            self._start(fresh)
