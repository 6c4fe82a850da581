"""QueueConsumer: base of push and pull consumers, which hold queues: positions, offsets, seeking and pauses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Annotated, Any

from bolide.client.consuming import broker_requests
from bolide.client.consuming.consumer import Consumer
from bolide.client.consuming.custom_offsets import OffsetStore
from bolide.client.consuming.group_member import GroupMember, QueueOwner
from bolide.client.consuming.membership import BROADCASTING
from bolide.client.consuming.offset_store import GroupOffsets, group_offsets
from bolide.client.consuming.process_queue import ProcessQueue
from bolide.client.instance.instance import ClientInstance
from bolide.client.messages.arguments import check_queues
from bolide.client.messages.checked import FROM_ZERO, checked_methods
from bolide.client.messages.errors import ClientStateError, ResponseError
from bolide.client.messages.moment import Moment, moment_ms
from bolide.client.messages.queue import MessageQueue
from bolide.client.tracing.interceptor import Interceptor
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response


@checked_methods
class QueueConsumer(Consumer):
    """Holds queues of a group, assigned by a rebalance or by the user."""

    _member: GroupMember
    _orderly = False
    _concurrency = 1

    def __init__(
        self,
        group: str,
        member: GroupMember,
        queues: QueueOwner,
        interceptors: tuple[Interceptor, ...],
        offset_folder: Path | None,
        offset_store: OffsetStore | None,
        *callers: object,
    ) -> None:
        super().__init__(group, member, interceptors, offset_store, member.queue_calls, *callers)
        self._queues = queues
        self._offset_folder = offset_folder
        self._offset_store = offset_store

    # -- life cycle

    async def _join(self) -> None:
        await self._member.join(self._queues, self._make_store)

    async def _leave(self) -> None:
        await self._member.leave()

    def _make_store(self, instance: ClientInstance) -> GroupOffsets:
        return group_offsets(
            instance,
            self._member.group,
            broadcasting=self._member.model == BROADCASTING,
            folder=self._offset_folder,
            store=self._offset_store,
        )

    def _state(self) -> str:
        return f"{super()._state()}, {len(self._member.owned)} queues"

    def _is_running(self) -> bool:
        return self._started or self._member.queue_calls.calling  # which may commit while the consumer closes

    @property
    def refusal(self) -> ResponseError | None:
        """The brokers' error if they reject queues of this consumer, for example because its group may not consume,
        else None."""
        return self._member.refusal(some=True) if self._started else None

    # -- queues

    def assignment(self) -> list[MessageQueue]:
        """Return the queues held now."""
        return sorted(self._member.owned)

    def _held(self, queue: MessageQueue) -> ProcessQueue:
        self._check_running()
        process_queue = self._member.owned.get(queue)
        if process_queue is None:
            raise ClientStateError(f"{queue} is not held by this consumer of {self._group}, see assignment()")
        return process_queue

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Stop reading these queues, or all, until `resume`.

        A push consumer still consumes the messages that it has pulled. A pull consumer does not return them.
        """
        self._queues.pause(queues)

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Resume reading these queues, or all. After a `pause` of all queues, only a `resume` of all has an effect."""
        self._queues.resume(queues)

    # -- offsets

    @abstractmethod
    def position(self, queue: MessageQueue) -> int:
        """Return the offset of the next message of a held queue. Raises `ClientStateError` if the consumer is not
        running, or does not hold the queue."""

    async def commit(self) -> None:
        """Store the offsets now; return when the brokers have responded."""
        self._check_running()
        await self._member.store.persist(list(self._member.owned), wait=True)

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

    # -- seeking

    def _check_seek(self) -> None:
        """Raise `ClientStateError` if the running code must not seek."""
        self._check_running()

    @abstractmethod
    async def _move(self, queue: MessageQueue, offset: int) -> None:
        """Continue from `offset` in a held queue. Raises `ClientStateError` if it is not held."""

    async def seek(self, queue: MessageQueue, offset: Annotated[int, FROM_ZERO]) -> None:
        """Continue from `offset` in a held queue. Fetched messages are dropped, once running listeners have finished.

        Raises `ClientStateError` if the queue is not held, or in a listener of this consumer.
        """
        self._check_seek()
        await self._move(queue, offset)

    async def seek_to_begin(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Continue at the oldest message, in these queues or in all held queues. Does not affect retries."""
        for queue in self._sought(queues):
            await self._move(queue, await self._member.offsets.begin_offset(queue))

    async def seek_to_end(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Continue at the next message that arrives, in these queues or in all held queues."""
        for queue in self._sought(queues):
            await self._move(queue, await self._member.offsets.end_offset(queue))

    async def seek_to_time(self, moment: Moment, queues: Iterable[MessageQueue] | None = None) -> None:
        """Continue at the first message stored at or after a time, in these queues or in all held queues.

        `moment` is ms since 1970, or a datetime with a zone. Does not affect retries.
        """
        timestamp = moment_ms("moment", moment)
        for queue in self._sought(queues):
            await self._move(queue, await self._member.offsets.offset_at(queue, timestamp))

    def _sought(self, queues: Iterable[MessageQueue] | None) -> list[MessageQueue]:
        self._check_seek()
        return self.assignment() if queues is None else check_queues("queues", queues)

    # -- requests of brokers

    def _serve(self, command: Command) -> Command | Coroutine[Any, Any, Command | None] | None:
        if command.code == codes.RESET_CONSUMER_CLIENT_OFFSET:
            return self._reset(command)
        if command.code == codes.GET_CONSUMER_STATUS_FROM_CLIENT:
            return broker_requests.consumer_status(self._member, command)
        if command.code == codes.GET_CONSUMER_RUNNING_INFO:
            return broker_requests.running_info(
                self._member, command, self._started_ms, self._orderly, self._concurrency
            )
        return super()._serve(command)

    async def _reset(self, command: Command) -> Command | None:
        for queue, offset in broker_requests.reset_offsets_of(command).items():
            if queue in self._member.owned:
                await self._reset_queue(queue, offset)
        return make_response(command, codes.SUCCESS)

    async def _reset_queue(self, queue: MessageQueue, offset: int) -> None:
        """Continue from `offset`, and store it."""
        await self._move(queue, offset)
