"""The auditor of a run: reads every queue, table and offset at the end, as any client could."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bolide.admin import Admin
from bolide.client import MessageQueue, TopicNotFound
from bolide.errors import BolideError, ConnectionLost
from bolide.layout.names import MASTER_ID
from proof.ledger import Ledger, Queue, QueueView, Served, View
from proof.ledger.facts import DEAD_PREFIX, RETRY_PREFIX
from proof.simulation.consumers import content_of, place_of
from proof.simulation.operators import Operator
from proof.simulation.swarm import TOPICS

TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
ROLL_TIMES: Final = "TIMER_ROLL_TIMES"


class Auditor:
    """Reads through an operator's client."""

    def __init__(
        self,
        ledger: Ledger,
        operator: Operator,
        stored: Callable[[str, int], float | None],
    ) -> None:
        """`stored` gives the time on the ledger's clock of a broker's store time, in ms; None if it cannot be known."""
        self._ledger = ledger
        self._operator = operator
        self._stored = stored

    @property
    def _admin(self) -> Admin:
        return self._operator.admin

    async def read(self, tables: bool = True) -> View:
        """Everything, as it is now. Raises `BolideError` while a broker does not answer, or has not registered."""
        masters = dict(self._operator.brokers)  # an election may have come since the last look
        # Without its master a set is read at a slave, which may be behind.
        routed = (await self._admin.topic_route(TOPICS[0])).brokers
        absent = [name for name, master in masters.items() if routed.get(name, {}).get(MASTER_ID) != master]
        if absent:
            raise ConnectionLost(f"not registered yet: {', '.join(sorted(absent))}")
        view = View()
        topics = {send.content.topic for send in self._ledger.sends}
        topics |= {prefix + group for group in self._ledger.groups for prefix in (DEAD_PREFIX, RETRY_PREFIX)}
        queues: list[MessageQueue] = []
        for topic in sorted(topics):
            try:
                queues += (await self._admin.topic_route(topic)).read_queues()
            except TopicNotFound:
                continue
        if tables:
            await self._operator.read_tables(view)
            # Before the ends of the queues: what is delivered meanwhile is consumed, too, and offsets would lead.
            for group in self._ledger.groups.values():
                if not group.broadcast:
                    of = {*group.topics, RETRY_PREFIX + group.name}
                    await self._offsets(view, masters, group.name, [queue for queue in queues if queue.topic in of])
        for queue in queues:
            try:
                found = await self._queue(queue)
            except TopicNotFound:
                continue  # the broker has deleted it, and a name server that missed that still has its route
            view.queues[Queue(queue.broker_name, queue.topic, queue.queue_id)] = found
        for broker in masters:
            await self._rolled(view, MessageQueue(TIMER_TOPIC, broker, 0))
        view.at = self._ledger.now
        return view

    async def _rolled(self, view: View, timers: MessageQueue) -> None:
        """What the timer stored once more while it waited; a broker without timers has no such queue."""
        try:
            end = await self._admin.end_offset(timers)
            offset = await self._admin.begin_offset(timers)
            while offset < end:
                messages = await self._admin.messages_at(timers, offset)
                if not messages:
                    break
                for message in messages:
                    if ROLL_TIMES in message.properties:
                        at = self._stored(timers.broker_name, message.store_timestamp)
                        view.rolled.append(Served(place_of(message), content_of(message), message.physical_offset, at))
                offset = messages[-1].queue_offset + 1
        except TopicNotFound:
            pass

    async def _offsets(
        self, view: View, masters: Mapping[str, str], group: str, queues: Sequence[MessageQueue]
    ) -> None:
        for place in queues:
            queue = Queue(place.broker_name, place.topic, place.queue_id)
            offset = await self._operator.offset(masters[queue.broker], group, queue)
            if offset >= 0:
                view.offsets[group, queue] = offset

    async def _queue(self, queue: MessageQueue) -> QueueView:
        first = await self._admin.begin_offset(queue)
        end = await self._admin.end_offset(queue)
        found = QueueView(first, end)
        offset = first
        while offset < end:
            messages = await self._admin.messages_at(queue, offset)
            if not messages:
                break  # the ledger sees a hole
            for message in messages:
                if message.queue_offset >= end:
                    break
                at = self._stored(queue.broker_name, message.store_timestamp)
                found.messages.append(Served(place_of(message), content_of(message), message.physical_offset, at))
            offset = messages[-1].queue_offset + 1
        return found


async def readable(auditor: Auditor, tables: bool = True) -> View | None:
    """What the auditor reads, or None while something does not answer."""
    try:
        return await auditor.read(tables)
    except (BolideError, OSError):
        return None
