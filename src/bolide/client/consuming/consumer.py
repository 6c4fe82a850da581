"""Consumer: base of push and pull consumers: joining the group, its offsets, and seeking."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from bolide.client.consuming.custom_offsets import OffsetStore
from bolide.client.consuming.group_member import GroupMember, QueueOwner
from bolide.client.consuming.membership import BROADCASTING
from bolide.client.consuming.offset_store import GroupOffsets, group_offsets
from bolide.client.consuming.process_queue import ProcessQueue
from bolide.client.instance.instance import ClientInstance
from bolide.client.instance.unclosed import Closeable
from bolide.client.messages.arguments import check_queues
from bolide.client.messages.checked import checked_methods
from bolide.client.messages.errors import ClientStateError, ResponseError
from bolide.client.messages.moment import Moment, moment_ms
from bolide.client.messages.queue import MessageQueue
from bolide.client.tracing.interceptor import Interceptor, close_all, start_all


@checked_methods
class Consumer(Closeable, ABC):
    """A consumer of a group."""

    def __init__(
        self,
        group: str,
        member: GroupMember,
        interceptors: tuple[Interceptor, ...],
        offset_folder: Path | None,
        offset_store: OffsetStore | None,
    ) -> None:
        self._group = group
        self._member = member
        self._interceptors = interceptors
        self._offset_folder = offset_folder
        self._offset_store = offset_store
        self._started = False
        self._started_ms = 0
        self._closed = False
        self._lock = asyncio.Lock()

    # -- life

    @abstractmethod
    async def start(self) -> Self:
        """Join the group."""

    async def _join(self, queues: QueueOwner) -> None:
        """Start the interceptors and join the group; `queues` reads the member's queues."""
        self._started_ms = self._member.options.world.wall_ms()
        try:
            await start_all(self._interceptors)
            self._started = True  # before the first queues, because a queue listener may use the consumer
            await self._member.join(queues, self._make_store)
        except BaseException:
            self._started = False
            await asyncio.shield(close_all(self._interceptors))
            raise

    def _make_store(self, instance: ClientInstance) -> GroupOffsets:
        return group_offsets(
            instance,
            self._member.group,
            broadcasting=self._member.model == BROADCASTING,
            folder=self._offset_folder,
            store=self._offset_store,
        )

    async def __aenter__(self) -> Self:
        return await self.start()

    def _state(self) -> str:
        return f"group {self.group!r}, {len(self._member.owned)} queues"

    def _check_running(self) -> None:
        if not self._started and not self._member.queue_calls.calling:  # which may commit while the consumer closes
            raise ClientStateError(f"consumer {self.group} is not running: use `async with` or await start()")
        self._member.instance.check_process()
        self._member.instance.check_loop()

    @property
    def refusal(self) -> ResponseError | None:
        """The reason why brokers reject queues of this consumer, such as a group that may not consume, or None."""
        return self._member.refusal(some=True) if self._started else None

    @property
    def group(self) -> str:
        """The group given to the constructor."""
        return self._group

    @property
    def client_id(self) -> str:
        """The id of this client at the brokers."""
        return self._member.options.client_id

    # -- offsets

    @abstractmethod
    def assignment(self) -> list[MessageQueue]:
        """The queues held now."""

    @abstractmethod
    async def _seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue from `offset` in a held queue. Raises `ClientStateError` if it is not held."""

    def _held(self, queue: MessageQueue) -> ProcessQueue:
        self._check_running()
        process_queue = self._member.owned.get(queue)
        if process_queue is None:
            raise ClientStateError(f"{queue} is not held by this consumer of {self.group}, see assignment()")
        return process_queue

    async def committed(self, queue: MessageQueue) -> int:
        """Return the group's stored offset of a queue, or -1 if it is not stored."""
        self._check_running()
        return await self._member.store.load(queue)

    async def begin_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the oldest message in a queue."""
        return await self._member.offsets.begin_offset(queue)

    async def end_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message of a queue will get."""
        return await self._member.offsets.end_offset(queue)

    async def lag(self) -> dict[MessageQueue, int]:
        """Return the number of unconsumed messages of each held queue, including retry queues. Queries the brokers."""
        self._check_running()
        return await self._member.lag()

    async def seek_to_begin(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Continue at the oldest message, in these queues or in all held queues. Does not affect retries."""
        for queue in self._sought(queues):
            await self._seek(queue, await self._member.offsets.begin_offset(queue))

    async def seek_to_end(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Continue at the next message that arrives, in these queues or in all held queues."""
        for queue in self._sought(queues):
            await self._seek(queue, await self._member.offsets.end_offset(queue))

    async def seek_to_time(self, moment: Moment, queues: Iterable[MessageQueue] | None = None) -> None:
        """Continue at the first message stored at or after a time, in these queues or in all held queues.

        `moment` is ms since 1970, or a datetime with a zone. Does not affect retries.
        """
        timestamp = moment_ms("moment", moment)
        for queue in self._sought(queues):
            await self._seek(queue, await self._member.offsets.offset_at(queue, timestamp))

    def _sought(self, queues: Iterable[MessageQueue] | None) -> list[MessageQueue]:
        self._check_running()
        return self.assignment() if queues is None else check_queues("queues", queues)
