"""PushConsumer: messages come to a listener as they arrive (RocketMQ's DefaultMQPushConsumer).

"Push" is a long poll: a task per queue keeps one pull at the broker, which answers when something arrives. What was
pulled is counted against flow control until a listener is through with it, and only then its offset moves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, Unpack, overload

from bolide.client.consuming import broker_requests
from bolide.client.consuming.activity import Activity, activity_of
from bolide.client.consuming.concurrent import ConcurrentConsumption
from bolide.client.consuming.consumer import Consumer
from bolide.client.consuming.consumption import ConsumeSetup, Consumption
from bolide.client.consuming.custom_offsets import OffsetStore
from bolide.client.consuming.group_member import GroupMember
from bolide.client.consuming.listeners import Listeners
from bolide.client.consuming.locks import HeldLocks
from bolide.client.consuming.membership import BROADCASTING, PASSIVELY, model_name
from bolide.client.consuming.message_filter import FilterMessageHook, check_filters
from bolide.client.consuming.offset_store import check_offset_store
from bolide.client.consuming.orderly import OrderlyConsumption
from bolide.client.consuming.process_queue import MAX_CACHED_BYTES, MAX_CACHED_COUNT, MAX_SPAN
from bolide.client.consuming.queue_pulls import MAX_PULL_BATCH, PullSettings, QueuePulls
from bolide.client.consuming.send_back import DEFAULT_MAX_RECONSUME_TIMES
from bolide.client.consuming.strategies import Strategy, find_strategy
from bolide.client.instance.options import DEFAULT_NAMESRV, ClientOptions, ConnectionOptions
from bolide.client.instance.request_reply import send_reply
from bolide.client.messages.arguments import (
    check_callable,
    check_count,
    check_group,
    check_objects,
    check_seconds,
    check_topic,
)
from bolide.client.messages.codec import CodecChoice, find_codec
from bolide.client.messages.errors import ClientStateError
from bolide.client.messages.light_queues import check_parent
from bolide.client.messages.listener import BatchListener, Listener, ListenerCall
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.received import ReceivedMessage
from bolide.client.messages.start_from import StartFrom
from bolide.client.messages.subscription import Selector
from bolide.client.messages.user_code import is_within
from bolide.client.producing.producer import tracer
from bolide.client.tracing.interceptor import Interceptor, around, close_all, tell_joined, tell_left
from bolide.layout.names import RETRY_PREFIX
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response

log = logging.getLogger("bolide.client")

NO_SUBSCRIPTION_AFTER: Final = 3.0
"""Seconds after the start at which a consumer that subscribed to nothing says so."""


class PushConsumer(Consumer):
    """Consumes in a group. ``async with PushConsumer("group") as consumer: consumer.subscribe(topic, "*", listener)``

    `model` is ``"clustering"`` (the members share the queues) or ``"broadcasting"`` (each reads all); `start_from` says
    where a new group starts: ``"last"``, ``"first"``, or a time; `orderly` gives each queue's messages one after the
    other; `concurrency` bounds the listener calls at once. `max_reconsume_times` -1 means 16, for orderly no limit;
    a message a listener has for more than `consume_timeout` seconds is sent back to be tried again (not orderly).
    `max_cached_for_topic` and its bytes are shared by the queues held (Java's pullThresholdForTopic), -1 is off.
    `suspend` is how many seconds a pull waits at its broker, `pull_interval` how many pass after a pull that brought
    messages. `filters` drop messages before delivery; `offset_store` keeps the offsets in place of the brokers.
    """

    def __init__(
        self,
        group: str,
        namesrv: str = DEFAULT_NAMESRV,
        *,
        model: Literal["clustering", "broadcasting"] = "clustering",
        start_from: StartFrom = "last",
        orderly: bool = False,
        strategy: str | Strategy = "AVG",
        concurrency: int = 20,
        max_reconsume_times: int = -1,
        consume_timeout: float = 900.0,
        pull_batch: int = 32,
        max_cached: int = MAX_CACHED_COUNT,
        max_cached_bytes: int = MAX_CACHED_BYTES,
        max_span: int = MAX_SPAN,
        max_cached_for_topic: int = -1,
        max_cached_bytes_for_topic: int = -1,
        suspend: float = 15.0,
        pull_interval: float = 0.0,
        orderly_pause: float = 1.0,
        send_subscription: bool = False,
        codec: CodecChoice = None,
        interceptors: tuple[Interceptor, ...] = (),
        trace: bool = False,
        offset_folder: Path | None = None,
        offset_store: OffsetStore | None = None,
        filters: tuple[FilterMessageHook, ...] = (),
        **connection: Unpack[ConnectionOptions],
    ) -> None:
        """Nothing is connected before `start`. Raises `ArgumentError` if an argument is invalid, and names it."""
        check_group(group)
        shared = model_name(model)
        self.orderly = orderly
        self.concurrency = check_count("concurrency", concurrency, 1)
        self._max_times = check_count("max_reconsume_times", max_reconsume_times, 0, off=-1)
        self._consume_timeout = check_seconds("consume_timeout", consume_timeout)
        self._orderly_pause = check_seconds("orderly_pause", orderly_pause)
        offset_store = check_offset_store(offset_store, offset_folder)
        limits = (
            check_count("max_cached", max_cached, 1),
            check_count("max_cached_bytes", max_cached_bytes, 1),
            check_count("max_span", max_span, 1),
            check_count("max_cached_for_topic", max_cached_for_topic, 1, off=-1),
            check_count("max_cached_bytes_for_topic", max_cached_bytes_for_topic, 1, off=-1),
        )
        batch = check_count("pull_batch", pull_batch, 1, MAX_PULL_BATCH)
        self._codec = find_codec(codec)
        settings = PullSettings(
            batch,
            check_seconds("suspend", suspend),
            check_seconds("pull_interval", pull_interval, zero=True),
            send_subscription,
            limits,
            check_filters(filters),
            self._codec,
        )
        options = ClientOptions.of(namesrv, fixed_name=shared == BROADCASTING, **connection)
        interceptors = check_objects("interceptors", interceptors, Interceptor)
        if trace:
            interceptors = (*interceptors, tracer(f"{group}-CONSUME", options))
        member = GroupMember(
            group,
            options,
            shared,
            PASSIVELY,
            start_from,
            find_strategy(strategy),
            self._serve,
            orderly,
        )
        super().__init__(group, member, interceptors, offset_folder, offset_store)
        self._listeners = Listeners(options.namespace)
        self._locks = HeldLocks(self._member)
        self._threads = options.world.pool(self.concurrency, f"bolide-{group}")
        self._consumption = self._make_consumption()
        self._pulls = QueuePulls(self._member, settings, self._consumption, self._locks if orderly else None)

    # -- life

    @overload
    def subscribe(
        self, topic: str, expression: str | Selector, listener: Listener, *, batch: Literal[0] = 0, parent: str = ""
    ) -> None: ...

    @overload
    def subscribe(
        self, topic: str, expression: str | Selector, listener: BatchListener, *, batch: int, parent: str = ""
    ) -> None: ...

    def subscribe(
        self,
        topic: str,
        expression: str | Selector,
        listener: Listener | BatchListener,
        *,
        batch: int = 0,
        parent: str = "",
    ) -> None:
        """Want messages of a topic: ``"*"``, ``"TagA || TagB"``, or ``sql("a > 5")``.

        `listener` gets one message at a time, or with `batch` above 0 a list of up to so many of one queue. It may be
        async, or plain (then it runs in a thread). Returning nothing means consumed; False, `ConsumeResult.RETRY` or an
        exception means try again; a number says how many at the front of the list were consumed. For a light queue,
        ``lmq("room-1")``, `parent` is the topic its messages are sent to.
        """
        check_topic(topic)
        check_parent(topic, parent)
        check_count("batch", batch, 0)
        check_callable("listener", listener, "messages" if batch else "message")
        world = self._member.options.world
        seen = around(listener, batch, self.group, self._interceptors, self._codec, world)
        self._listeners.add(topic, ListenerCall(seen, batch))
        self._member.subscribe(topic, expression, parent)

    async def unsubscribe(self, topic: str) -> None:
        """Drop the subscription of a topic, so that its queues go to the other members.

        In a listener of this consumer it returns immediately, and the queues go once that listener has returned.
        """
        self._member.forget(topic)
        releasing = self._release(topic, self._listeners.get(topic))
        if is_within(self._consumption):
            self._member.instance.spawn(releasing, f"unsubscribe {self.group}")
        else:
            await releasing

    async def _release(self, topic: str, listener: ListenerCall | None) -> None:
        await self._member.release(topic)
        self._listeners.remove(topic, listener)  # not before: messages of the topic may still arrive

    async def start(self) -> Self:
        """Join the group; returns with the first share of queues held. A second call does nothing.

        Raises `ClientStateError` when closed, or when the group is in this client already, and `ResponseError` when
        brokers refuse an SQL expression or the group.
        """
        async with self._lock:
            if self._closed:
                raise ClientStateError(f"consumer {self.group} is closed, make a new one")
            if not self._started:
                await self._join(self._pulls)
                tell_joined(self._interceptors, self.group, self._member.cached)
                self._opened(f"PushConsumer of group {self.group}")
                self._member.instance.spawn(self._mind_subscriptions(), f"subscriptions {self.group}")
                if self.orderly:
                    self._member.instance.keep(self._locks.refresh_always, f"locks {self.group}")
        return self

    async def _mind_subscriptions(self) -> None:
        await asyncio.sleep(NO_SUBSCRIPTION_AFTER)
        if not self._member.subscriptions and self._started:
            log.warning("consumer %s has no subscription and gets no messages: call subscribe(topic, ...)", self.group)

    def _make_consumption(self) -> Consumption:
        limit = DEFAULT_MAX_RECONSUME_TIMES if self._max_times < 0 and not self.orderly else self._max_times
        setup = ConsumeSetup(
            self._member, self._listeners.of, self._listeners.of_all, self.concurrency, limit, self._threads
        )
        if self.orderly:
            return OrderlyConsumption(setup, self._locks, self._orderly_pause)
        return ConcurrentConsumption(setup, self._consume_timeout)

    async def close(self) -> None:
        """Let the listeners that run finish, store all offsets, and leave the group. A second call does nothing.

        In a listener, an interceptor or the offset store of this consumer it returns immediately, and the consumer
        closes in the background once that call has returned.
        """
        if self._member.in_child:
            return
        self._closed = True
        self._closing()
        await self._close_outside(self._close, self._consumption, self._interceptors, self._offset_store)

    async def _close(self) -> None:
        async with self._lock:
            if self._started:
                self._started = False
                await asyncio.shield(self._leave())
            self._threads.shutdown(wait=False)

    async def _leave(self) -> None:
        self._pulls.stop()
        await self._consumption.close()
        tell_left(self._interceptors, self.group, self._member.cached)
        await close_all(self._interceptors)
        await self._member.leave()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- looking and steering

    def assignment(self) -> list[MessageQueue]:
        """The queues held now, those of the retry topic left out."""
        return sorted(queue for queue in self._member.owned if not queue.topic.startswith(RETRY_PREFIX))

    def activity(self) -> Activity:
        """Return when the consumer last sent a pull and last ended a call of a listener, for a probe of liveness."""
        now = asyncio.get_running_loop().time()
        return activity_of(self._member.owned.values(), self._pulls.paused, self._member.stats.listened, now)

    @property
    def client_id(self) -> str:
        """Who we are to the brokers."""
        return self._member.options.client_id

    def position(self, queue: MessageQueue) -> int:
        """The offset of the next message to consume: all before it are consumed. -1 if it is not known here.

        Raises `ClientStateError` if the consumer is not running.
        """
        self._check_running()
        return self._member.store.get(queue)

    async def reply_to(self, request: ReceivedMessage, body: bytes, timeout: float | None = None) -> None:
        """Answer a message that was sent by `Producer.request`.

        Raises `MessageRefused` when it was not, `ResponseError` when the one who asked is gone.
        """
        await send_reply(
            self._member.instance, self.group, request, body, self._member.options.world.wall_ms(), timeout
        )

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Stop pulling these queues, or all of them, until `resume`. What was pulled is still consumed."""
        self._pulls.pause(queues)

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Pull these queues again, or all of them. Queues paused by a `pause` of all stay paused until all resume."""
        self._pulls.resume(queues)

    async def commit(self) -> None:
        """Store the offsets now, and return when the brokers have answered."""
        self._check_running()
        await self._member.store.persist(list(self._member.owned), wait=True)

    async def drain(self, timeout: float | None = None) -> bool:
        """Stop pulling, and return True once everything that was pulled is consumed and its offsets are stored, or
        False after `timeout` seconds. The consumer keeps its queues: `close` releases them, `resume` continues.
        Raises `ClientStateError` in a listener of this consumer.
        """
        self._check_outside_listener("drain")
        if timeout is not None:
            check_seconds("timeout", timeout, zero=True)
        drained = True
        try:
            async with asyncio.timeout(timeout):
                await self._pulls.drain()
        except TimeoutError:
            drained = False
        await self.commit()
        return drained

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue from `offset` in an assigned queue, once its messages are processed. Raises `ClientStateError` if
        the queue is not assigned, or in a listener of this consumer.
        """
        await self._seek(queue, check_count("offset", offset, 0))

    async def _seek(self, queue: MessageQueue, offset: int) -> None:
        self._check_outside_listener("seek")
        await self._pulls.seek(queue, offset)

    def _check_outside_listener(self, method: str) -> None:
        self._check_running()
        if is_within(self._consumption):
            raise ClientStateError(
                f"{method} waits for the listeners of consumer {self.group}, so a listener of it cannot call {method}:"
                " call it elsewhere"
            )

    # -- requests of brokers

    def _serve(self, command: Command) -> Command | Coroutine[Any, Any, Command | None] | None:
        if command.code == codes.RESET_CONSUMER_CLIENT_OFFSET:
            return self._reset(command)
        if command.code == codes.GET_CONSUMER_STATUS_FROM_CLIENT:
            return broker_requests.consumer_status(self._member, command)
        if command.code == codes.GET_CONSUMER_RUNNING_INFO:
            return broker_requests.running_info(self._member, command, self._started_ms, self.orderly, self.concurrency)
        if command.code == codes.CONSUME_MESSAGE_DIRECTLY and self._started:
            return broker_requests.consume_directly(command, self._listeners.of, self._threads, self.orderly)
        return make_response(command, codes.REQUEST_CODE_NOT_SUPPORTED, f"a consumer does not serve {command.code}")

    async def _reset(self, command: Command) -> Command | None:
        for queue, offset in broker_requests.reset_offsets_of(command).items():
            if queue in self._member.owned:
                await self._pulls.seek(queue, offset)
        return make_response(command, codes.SUCCESS)
