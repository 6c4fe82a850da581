"""A member of a consumer group: heartbeat, rebalance, offsets. The base of push and pull consumers.

As in RocketMQ's RebalanceImpl, a rebalance runs every 20 s, immediately after a broker reports a change of the group,
and one second after an incomplete round.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from bolide.client.consuming.client_check import check_expressions
from bolide.client.consuming.consumer_stats import ConsumerStats
from bolide.client.consuming.flow_control import CachedMessages, QueueRoom
from bolide.client.consuming.membership import BROADCASTING, CLUSTERING, PASSIVELY, GroupMembership, Serve
from bolide.client.consuming.offset_store import GroupOffsets
from bolide.client.consuming.other_subscriptions import OtherSubscriptions
from bolide.client.consuming.process_queue import ProcessQueue
from bolide.client.consuming.queue_listener import QueueCalls, QueueListener
from bolide.client.consuming.refusals import GroupRefusals
from bolide.client.consuming.strategies import Strategy, shared_out
from bolide.client.instance.background_tasks import KeptTask, end_kept
from bolide.client.instance.instance import ClientInstance
from bolide.client.instance.options import ClientOptions
from bolide.client.instance.protocol_json import json_body
from bolide.client.messages.errors import (
    ClientStateError,
    NoQueue,
    ResponseError,
    TopicNotFound,
    raise_again,
    refusal_of,
)
from bolide.client.messages.light_queues import check_parent
from bolide.client.messages.namespace import with_namespace
from bolide.client.messages.queue import MessageQueue, java_order, queue_order
from bolide.client.messages.start_from import StartFrom
from bolide.client.messages.subscription import Selector, Subscription, subscription
from bolide.errors import BolideError, ConnectionLost, RequestTimeout
from bolide.remoting import codes

log = logging.getLogger("bolide.client")

INCOMPLETE_RETRY: Final = 1.0


class QueueOwner(Protocol):
    """Reads the queues of a member."""

    async def gained(self, process_queue: ProcessQueue) -> bool:
        """Prepare a queue, without reading it. Return False if that is not possible yet."""

    def begin(self, process_queue: ProcessQueue) -> None:
        """Start reading a prepared queue. A second call does nothing."""

    async def lost(self, process_queue: ProcessQueue) -> None:
        """Stop reading a queue, drop it, and report it as revoked."""

    def note_progress(self) -> None:
        """Move the offsets in memory to the first unconsumed message of each queue."""

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Stop reading these queues, or all, until `resume`."""

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Resume reading these queues, or all."""


class GroupMember(GroupMembership):
    """The queues of one member, and its rebalance rounds. With the consume type CONSUME_PASSIVELY, which push consumers
    use, it also subscribes to the group's retry topic."""

    def __init__(
        self,
        group: str,
        options: ClientOptions,
        model: str,
        consume_type: str,
        start_from: StartFrom,
        strategy: Strategy,
        serve: Serve,
        queue_listener: QueueListener | None,
        orderly: bool = False,
    ) -> None:
        super().__init__(group, options, model, consume_type, start_from, serve)
        self.strategy = strategy
        self.owned: dict[MessageQueue, ProcessQueue] = {}
        self.stats = ConsumerStats()
        self.queue_calls = QueueCalls(queue_listener, group, options.world)
        self.room = QueueRoom(group)
        self.cached = CachedMessages(self.owned, options.namespace)
        self._queues: QueueOwner | None = None
        self._orderly = orderly
        self._wake = asyncio.Event()
        self._round = asyncio.Lock()
        self._tasks: list[KeptTask] = []
        self._unreachable = False
        self._refusals = GroupRefusals(group)
        self._others = OtherSubscriptions(group)

    def refusal(self, *, some: bool = False) -> ResponseError | None:
        """Return an error if brokers reject all held queues, or with `some` at least one queue or topic. Without held
        queues, return the error that prevents the member from getting queues. Returns None without an error."""
        if self.owned:
            refusals = [queue.refusal for queue in self.owned.values()]
            if some:
                return next(filter(None, refusals), None) or self._refusals.of_topics
            return refusals[0] if all(refusals) else None
        heartbeats = self._instance.heartbeats.refusals if self._instance is not None else {}
        return self._refusals.of_topics or next(filter(None, map(refusal_of, heartbeats.values())), None)

    def rebalance_soon(self) -> None:
        """Start a rebalance round without waiting for the interval."""
        self._wake.set()

    # -- life cycle

    def subscribe(self, topic: str, expression: str | Selector, parent: str = "") -> None:
        """Subscribe to a topic. Takes effect with the next round, which starts immediately if the member is running.

        For a light queue (LMQ), `parent` is the topic that its messages are sent to.
        """
        check_parent(topic, parent)
        topic = with_namespace(self.options.namespace, topic)
        if parent:
            self.parents[topic] = with_namespace(self.options.namespace, parent)
            if self._instance is not None:
                self._instance.parents.update(self.parents)
        self.subscriptions[topic] = subscription(topic, expression, self.options.world.wall_ms())
        if self.model == CLUSTERING and self.consume_type == PASSIVELY:
            self.subscriptions.setdefault(
                self.retry_topic, subscription(self.retry_topic, "*", self.options.world.wall_ms())
            )
        if self._instance is not None:
            self._instance.spawn(self._tell(), f"subscribe {self.group}")

    def forget(self, topic: str) -> None:
        """Remove the subscription of a topic. Its queues are held until `release`."""
        topic = with_namespace(self.options.namespace, topic)
        self.subscriptions.pop(topic, None)
        self._refusals.forget(topic)
        self.stats.forget(topic)

    async def release(self, topic: str) -> None:
        """Release the queues of a topic without a subscription."""
        topic = with_namespace(self.options.namespace, topic)
        async with self._round:
            await self._apply(topic, [])
            if set(self.subscriptions) == {self.retry_topic}:  # no listener would get its messages
                del self.subscriptions[self.retry_topic]
                await self._apply(self.retry_topic, [])
        if self._instance is not None:
            await self._tell()

    async def _tell(self) -> None:
        for topic in sorted(self.topics()):
            try:
                await self.instance.route(topic)
            except TopicNotFound:
                continue
        await self.instance.heartbeats.send()
        self.rebalance_soon()

    async def join(self, queues: QueueOwner, store: Callable[[ClientInstance], GroupOffsets]) -> None:
        """Join the group: fetch routes, send a heartbeat, and run the first rebalance; `queues` reads the assigned
        queues.

        Raises `ClientStateError`, and `ResponseError` if brokers reject an expression or the group.
        """
        instance = await self.register(store)
        self._queues = queues
        try:
            await instance.refresh_routes()
            await check_expressions(instance, self.group, self.subscriptions.values())
            await instance.heartbeats.send()
            complete = await self.rebalance()
            if not complete and (refusal := self.refusal()) is not None:
                raise refusal
        except BaseException:
            await asyncio.shield(self.leave())
            raise
        if not complete:
            self._wake.set()
        self._tasks.append(instance.keep(self._rounds, f"rebalance {self.group}"))
        self._tasks.append(instance.keep(self._persist_loop, f"offsets {self.group}"))

    async def leave(self) -> None:
        """Release all queues, store their offsets with confirmation, and notify the brokers."""
        if self._instance is None:
            return
        # Wait for a running round: a queue that it has locked but not yet added to `owned` would stay locked for a
        # minute.
        async with self._round:
            await end_kept(self._tasks)
            self._tasks.clear()
            for queue in list(self.owned):
                await self._give_back(queue)
        await self.unregister()

    # -- rounds

    async def _rounds(self) -> None:
        pause = INCOMPLETE_RETRY
        while True:
            try:
                async with asyncio.timeout(self.options.rebalance_interval):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            complete = await self.rebalance()
            self._refusals.report(self.refusal(some=True), self.owned.values(), asyncio.get_running_loop().time())
            if complete:
                pause = INCOMPLETE_RETRY
                continue
            pause = min(2 * pause, self.options.rebalance_interval) if self._unreachable else INCOMPLETE_RETRY
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                self._wake.set()

    async def rebalance(self) -> bool:
        """Run one round over all topics. Return False if a topic is incomplete and the round should be repeated."""
        complete = True
        self._unreachable = False
        moved: list[Subscription] = []
        async with self._round:
            for topic, wanted in list(self.subscriptions.items()):
                held = self.queues_of(topic)
                try:
                    complete &= await self._rebalance_topic(topic)
                except TopicNotFound as error:
                    # A topic may be created later; the retry topic is created once a broker has received the heartbeat.
                    if topic != self.retry_topic:
                        self.instance.troubles.begin(("topic", self.group, topic), f"group {self.group} waits", error)
                        complete = False
                except BolideError as error:
                    what = f"rebalance of {self.group} for topic {topic} failed"
                    self.instance.troubles.begin(("rebalance", self.group, topic), what, error)
                    self._unreachable |= isinstance(error, ConnectionLost | RequestTimeout)
                    self._refusals.note(topic, error)
                    complete = False
                else:
                    self.instance.troubles.over(("topic", self.group, topic))
                    self.instance.troubles.over(("rebalance", self.group, topic))
                if self.queues_of(topic) != held:
                    moved.append(wanted)
            if moved:
                await self._tell_anew(moved)
        return complete

    async def _tell_anew(self, moved: list[Subscription]) -> None:
        """Resend the subscriptions: if members subscribe to a topic differently,
        a broker uses the newest subscription."""
        for wanted in moved:
            wanted.told_at = max(self.options.world.wall_ms(), wanted.version + 1)
        await self.instance.heartbeats.send()
        for wanted in moved:
            wanted.version = wanted.told_at  # a pull ahead of the heartbeat would be rejected (25)

    async def _rebalance_topic(self, topic: str) -> bool:
        route = await self.instance.route(topic)
        queues = sorted(route.read_queues(), key=queue_order)
        if self.model == BROADCASTING:
            return await self._apply(topic, queues)
        clients = await member_ids(self.instance, self.group, list(route.brokers)) if queues else []
        if not clients:
            return False  # keep the assignment while queues or members are unknown
        if len(clients) > 1 and topic != self.retry_topic:
            now = asyncio.get_running_loop().time()
            await self._others.compare(self.instance, self.subscriptions.get(topic), list(route.brokers), now)
        clients = without_twins(self.instance, self.group, sorted(clients, key=java_order))
        mine: Sequence[MessageQueue] = []
        if self.instance.client_id in clients:
            mine = shared_out(self.strategy, self.group, self.instance.client_id, queues, clients)
        settled = await self._apply(topic, mine)
        return settled and self.instance.client_id in clients

    async def _apply(self, topic: str, mine: Sequence[MessageQueue]) -> bool:
        """Release queues of a topic that are not in `mine`, and acquire the new queues. Return False if a new queue is
        not available yet."""
        wanted = set(mine)
        changed = False
        self._refusals.forget(topic)
        for queue in [queue for queue in self.owned if queue.topic == topic and queue not in wanted]:
            await self._give_back(queue)
            changed = True
        settled = True
        new: list[ProcessQueue] = []
        for queue in mine:
            if queue in self.owned:
                continue
            process_queue = ProcessQueue(queue, self._orderly)
            try:
                taken = self._queues is not None and await self._queues.gained(process_queue)
            except BolideError as error:
                self.instance.troubles.begin(("take", queue), f"queue {queue} is not taken yet", error)
                self._unreachable |= isinstance(error, ConnectionLost | RequestTimeout)
                self._refusals.note(topic, error)
                taken = False
            else:
                self.instance.troubles.over(("take", queue))
            if taken:
                self.owned[queue] = process_queue
                new.append(process_queue)
                changed = True
            else:
                settled = False
        try:
            await self.queue_calls.assigned(process_queue.queue for process_queue in new)
        finally:
            for process_queue in new:
                if self._queues is not None and not process_queue.dropped:
                    self._queues.begin(process_queue)
        if changed and topic in self.subscriptions and self._instance is not None:
            log.info("group %s holds %d queues of topic %s", self.group, len(self.queues_of(topic)), topic)
        return settled

    async def take_exactly(self, queues: Sequence[MessageQueue]) -> None:
        """Hold exactly these queues, without the group's rebalance. Raises `NoQueue` if one is not available."""
        self.queue_calls.check_outside("assign")
        async with self._round:
            for topic in dict.fromkeys(queue.topic for queue in [*self.owned, *queues]):
                if not await self._apply(topic, [queue for queue in queues if queue.topic == topic]):
                    if (refusal := self._refusals.of_topic(topic)) is not None:
                        raise_again(refusal)
                    raise NoQueue(f"not all queues of topic {topic} could be taken, see the log")

    async def _give_back(self, queue: MessageQueue) -> None:
        process_queue = self.owned.get(queue)
        if process_queue is None:
            return
        if self._queues is not None:
            await self._queues.lost(process_queue)
        self.owned.pop(queue, None)
        await self.store.persist([queue], wait=True)
        self.store.forget(queue)

    async def begin_anew(self, process_queue: ProcessQueue, choose: Callable[[], int]) -> ProcessQueue | None:
        """Restart a queue at the offset that `choose` returns, once its running listeners have finished.

        Other cached messages are dropped. Returns the queue to pull now, or None if it is no longer held.
        """
        queue = process_queue.queue
        process_queue.drop()
        try:
            await process_queue.wait_idle()
            async with self._round:
                if self.owned.get(queue) is not process_queue:
                    return None
                offset = choose()
                log.warning("%s restarts at offset %d", queue, offset)
                fresh = ProcessQueue(queue, self._orderly)
                fresh.locked, fresh.locked_at = process_queue.locked, process_queue.locked_at
                fresh.next_offset, fresh.last_stored = offset, process_queue.last_stored
                self.store.update(queue, offset)
                await self.store.persist([queue], wait=True)
                self.owned[queue] = fresh
                return fresh
        finally:
            if self.owned.get(queue) is process_queue:  # abandoned halfway: the next round acquires the queue
                del self.owned[queue]
                self.rebalance_soon()

    def queues_of(self, topic: str) -> list[MessageQueue]:
        """Return the held queues of a topic."""
        return [queue for queue in self.owned if queue.topic == topic]

    # -- offsets

    async def _persist_loop(self) -> None:
        while True:
            await asyncio.sleep(self.options.persist_interval)
            self._note_progress()
            try:
                await self.store.persist(list(self.owned), wait=False)
            except BolideError as error:
                self.instance.troubles.begin(("offsets", self.group), f"the offsets of {self.group}", error)
            else:
                self.instance.troubles.over(("offsets", self.group))

    def _note_progress(self) -> None:
        if self._queues is not None:
            self._queues.note_progress()

    async def lag(self) -> dict[MessageQueue, int]:
        """Return the number of unconsumed messages of each held queue. Raises `ResponseError`, `ConnectionLost`."""
        self._note_progress()
        held, offsets = dict(self.owned), self.offsets
        ends = await asyncio.gather(*(offsets.end_offset(queue) for queue in held))
        lags = {}
        for (queue, process_queue), end in zip(held.items(), ends, strict=True):
            consumed = process_queue.commit_offset
            lags[queue] = max(0, end - (consumed if consumed >= 0 else process_queue.next_offset))
        return lags


async def member_ids(instance: ClientInstance, group: str, broker_names: list[str]) -> list[str]:
    """Return the client ids of a group (GET_CONSUMER_LIST_BY_GROUP) from any of these brokers, or [].

    Every member registers with all of the brokers. Raises `BolideError` if no broker returned the ids and a request
    failed.
    """
    failure: BolideError | None = None
    for name in instance.world.random.sample(broker_names, len(broker_names)):
        address = instance.any_address(name)
        if address is None:
            continue
        try:
            answer = await instance.call(
                address,
                codes.GET_CONSUMER_LIST_BY_GROUP,
                {"consumerGroup": group, "bname": name},
                accept=(codes.SUCCESS, codes.SYSTEM_ERROR),
            )
        except BolideError as error:
            failure = error
            continue
        if answer.code == codes.SUCCESS:
            return [str(client) for client in json_body(answer.body).get("consumerIdList") or []]
    if failure is not None:
        raise failure
    return []


def without_twins(instance: ClientInstance, group: str, clients: list[str]) -> list[str]:
    """Return each client id once: the queues assigned to the second of two members with the same id would not be read.
    Logs a problem if another consumer has the id of this client."""
    own, key = instance.client_id, ("twin", group)
    if clients.count(own) > 1:
        twin = ClientStateError(f"another consumer has the client id {own}, so both read the same queues")
        instance.troubles.begin(key, f"group {group}: give each its own instance_name", twin)
    else:
        instance.troubles.over(key)
    return list(dict.fromkeys(clients))
