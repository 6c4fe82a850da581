"""Offsets of groups: show, set, clone, reset by time (mqadmin's cloneGroupOffset, resetOffsetByTime,
skipAccumulatedMessage)."""

from __future__ import annotations

from typing import Annotated

from bolide.admin.calls import AdminCalls, ext_of, queue_from
from bolide.client.messages.checked import FROM_ZERO, checked_methods
from bolide.client.messages.errors import ResponseError
from bolide.client.messages.moment import Moment, moment_ms
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.start_from import StartFrom, start_ms
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_answer
from bolide.remoting.bodies.offsets import ResetOffsetBody


@checked_methods
class OffsetCalls(AdminCalls):
    """Calls on offsets of groups and queues."""

    async def group_offset(self, group: str, queue: MessageQueue) -> int:
        """Return a group's stored offset of a queue, or -1 if it is not stored."""
        answer = await self.ask(
            await self.reader_of(queue),
            codes.QUERY_CONSUMER_OFFSET,
            ext_of(
                consumerGroup=group,
                topic=queue.topic,
                queueId=queue.queue_id,
                bname=queue.broker_name,
                setZeroIfNotFound=False,
            ),
            accept=(codes.SUCCESS, codes.QUERY_NOT_FOUND),
        )
        return int(answer.ext()["offset"]) if answer.code == codes.SUCCESS else -1

    async def set_group_offset(self, group: str, queue: MessageQueue, offset: Annotated[int, FROM_ZERO]) -> None:
        """Store a group's offset of a queue. Running members overwrite it: stop them, or use `reset_offset`."""
        await self.ask(
            await self.master_of(queue),
            codes.UPDATE_CONSUMER_OFFSET,
            ext_of(
                consumerGroup=group,
                topic=queue.topic,
                queueId=queue.queue_id,
                commitOffset=offset,
                bname=queue.broker_name,
            ),
        )

    async def begin_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the oldest message."""
        return await self._end(queue, codes.GET_MIN_OFFSET)

    async def end_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message will get."""
        return await self._end(queue, codes.GET_MAX_OFFSET)

    async def _end(self, queue: MessageQueue, code: int) -> int:
        ext = ext_of(topic=queue.topic, queueId=queue.queue_id, bname=queue.broker_name)
        return int((await self.ask(await self.reader_of(queue), code, ext)).ext()["offset"])

    async def offset_at(self, queue: MessageQueue, moment: Moment) -> int:
        """Return the offset of the first message stored at or after a time (ms since 1970,
        or a datetime with a zone)."""
        return await self._offset_at(queue, moment_ms("moment", moment))

    async def _offset_at(self, queue: MessageQueue, timestamp: int) -> int:
        ext = ext_of(topic=queue.topic, queueId=queue.queue_id, timestamp=timestamp, bname=queue.broker_name)
        answer = await self.ask(await self.reader_of(queue), codes.SEARCH_OFFSET_BY_TIMESTAMP, ext)
        return int(answer.ext()["offset"])

    async def earliest_time(self, queue: MessageQueue) -> int:
        """Return the store time of the oldest message in ms since 1970, or -1 for an empty queue."""
        ext = ext_of(topic=queue.topic, queueId=queue.queue_id, bname=queue.broker_name)
        answer = await self.ask(await self.reader_of(queue), codes.GET_EARLIEST_MSG_STORETIME, ext)
        return int(answer.ext()["timestamp"])

    async def clone_offsets(self, from_group: str, to_group: str, topic: str) -> None:
        """Copy the stored offsets of one group in a topic to another group, on every broker of the topic.

        No member of the second group may be running, because it would overwrite them. Raises `TopicNotFound`,
        `ResponseError`.
        """
        for address in (await self.topic_masters(topic)).values():
            ext = ext_of(srcGroup=from_group, destGroup=to_group, topic=topic, offline=True)
            await self.ask(address, codes.CLONE_GROUP_OFFSET, ext)

    async def reset_offset(
        self, group: str, topic: str, to: StartFrom, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """Reset a group in every queue of a topic.

        `to` is ``"first"`` for the oldest message, ``"last"`` for the end of the queue, or a time for the first message
        stored at or after it. A time is ms since 1970, or a datetime with a zone. `force` also moves forward past
        unconsumed messages. The broker notifies running members. If no member is online, the offsets are stored
        directly. Returns the new offsets. Raises `TopicNotFound`.
        """
        timestamp = start_ms("to", to)
        offsets: dict[MessageQueue, int] = {}
        for name, address in (await self.topic_masters(topic)).items():
            ext = ext_of(group=group, topic=topic, timestamp=timestamp, isForce=force, queueId=-1)
            try:
                answer = await self.ask(address, codes.INVOKE_BROKER_TO_RESET_OFFSET, ext)
                table = decode_answer(answer.body, ResetOffsetBody).offset_table
                offsets.update({queue_from(queue): offset for queue, offset in table.items()})
            except ResponseError as error:
                # 4.9 has no special code for a group that never stored an offset.
                new_group = error.code == codes.SYSTEM_ERROR and "not exist" in error.remark
                if error.code != codes.CONSUMER_NOT_ONLINE and not new_group:
                    raise
                offsets.update(await self._reset_directly(group, topic, name, timestamp, force))
        return dict(sorted(offsets.items()))

    async def _reset_directly(
        self, group: str, topic: str, broker_name: str, timestamp: int, force: bool
    ) -> dict[MessageQueue, int]:
        offsets = {}
        for queue in (await self._client.route(topic)).read_queues():
            if queue.broker_name != broker_name:
                continue
            offset = await (self.end_offset(queue) if timestamp < 0 else self._offset_at(queue, timestamp))
            current = await self.group_offset(group, queue)
            if force or current < 0 or offset < current:
                await self.set_group_offset(group, queue, offset)
                offsets[queue] = offset
            else:
                offsets[queue] = current
        return offsets
