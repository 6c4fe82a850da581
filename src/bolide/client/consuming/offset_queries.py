"""Queries of queue offsets at brokers: the first, the last, by time, and a group's start offset."""

from __future__ import annotations

from bolide.client.consuming.offset_store import GroupOffsets
from bolide.client.instance.instance import ClientInstance
from bolide.client.messages.errors import TopicNotFound
from bolide.client.messages.moment import moment_ms
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.start_from import StartFrom
from bolide.layout.names import RETRY_PREFIX
from bolide.remoting import codes


class OffsetQueries:
    """Queries to the brokers of queues. All methods raise `TopicNotFound` if the address of the broker is unknown, and
    `ResponseError` or `ConnectionLost` if the request fails."""

    def __init__(self, instance: ClientInstance, store: GroupOffsets, start_from: StartFrom) -> None:
        """Create queries for a group. `store` contains its offsets. `start_from` applies to queues without a stored
        offset."""
        self._instance = instance
        self._store = store
        self._start_from = start_from

    async def start_offset(self, queue: MessageQueue) -> int:
        """Return the start offset of a queue: the stored offset, or else the offset that `start_from` specifies
        (computePullFromWhere)."""
        stored = await self._store.load(queue)
        if stored >= 0:
            return stored
        retry = queue.topic.startswith(RETRY_PREFIX)
        if self._start_from == "first":
            return 0
        if self._start_from == "last":
            return 0 if retry else await self._newest(queue)
        if retry:
            return await self.end_offset(queue)
        return await self.offset_at(queue, moment_ms("start_from", self._start_from))

    async def _newest(self, queue: MessageQueue) -> int:
        """Return the end offset of a queue without a stored offset, or 0 if its first message arrived after the query
        of that offset."""
        end = await self.end_offset(queue)
        if end == 0:
            return 0
        # The broker returns 0 instead of "not found" while it has the first message of the queue in memory.
        stored = await self._store.load(queue)
        return stored if stored >= 0 else end

    async def end_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message will get."""
        return await self._ask_offset(queue, codes.GET_MAX_OFFSET, {})

    async def begin_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the oldest message."""
        return await self._ask_offset(queue, codes.GET_MIN_OFFSET, {})

    async def offset_at(self, queue: MessageQueue, timestamp: int) -> int:
        """Return the offset of the first message stored at `timestamp` (ms since 1970) or later."""
        return await self._ask_offset(queue, codes.SEARCH_OFFSET_BY_TIMESTAMP, {"timestamp": str(timestamp)})

    async def _ask_offset(self, queue: MessageQueue, code: int, more: dict[str, str]) -> int:
        address = self._instance.any_address(queue.broker_name)
        if address is None:
            raise TopicNotFound(f"no address of broker {queue.broker_name} is known", codes.TOPIC_NOT_EXIST)
        ext = {"topic": queue.topic, "queueId": str(queue.queue_id), "bname": queue.broker_name, **more}
        return int((await self._instance.call(address, code, ext)).ext()["offset"])
