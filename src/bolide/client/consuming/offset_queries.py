"""Offsets of queues, by their brokers: the first, the last, the one of a time, and the one that a group starts at."""

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
    """What the brokers of queues answer. All methods raise `TopicNotFound` without a broker, `ResponseError` and
    `ConnectionLost`.
    """

    def __init__(self, instance: ClientInstance, store: GroupOffsets, start_from: StartFrom) -> None:
        """`store` has the offsets of the group, `start_from` says where it starts a queue without one."""
        self._instance = instance
        self._store = store
        self._start_from = start_from

    async def start_offset(self, queue: MessageQueue) -> int:
        """Where to start a queue: at the stored offset, else by `start_from` (computePullFromWhere)."""
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
        """The end of a queue whose broker knows no progress: but a message that came since it said so counts as new."""
        end = await self.end_offset(queue)
        if end == 0:
            return 0
        # It answers 0 instead of "none" for as long as it has the first message of the queue in memory.
        stored = await self._store.load(queue)
        return stored if stored >= 0 else end

    async def end_offset(self, queue: MessageQueue) -> int:
        """The offset the next message will get."""
        return await self._ask_offset(queue, codes.GET_MAX_OFFSET, {})

    async def begin_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message kept."""
        return await self._ask_offset(queue, codes.GET_MIN_OFFSET, {})

    async def offset_at(self, queue: MessageQueue, timestamp: int) -> int:
        """The offset of the first message stored at `timestamp` (ms since 1970) or later."""
        return await self._ask_offset(queue, codes.SEARCH_OFFSET_BY_TIMESTAMP, {"timestamp": str(timestamp)})

    async def _ask_offset(self, queue: MessageQueue, code: int, more: dict[str, str]) -> int:
        address = self._instance.any_address(queue.broker_name)
        if address is None:
            raise TopicNotFound(f"no address of broker {queue.broker_name} is known", codes.TOPIC_NOT_EXIST)
        ext = {"topic": queue.topic, "queueId": str(queue.queue_id), "bname": queue.broker_name, **more}
        return int((await self._instance.call(address, code, ext)).ext()["offset"])
