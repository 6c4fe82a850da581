"""PushConsumer: a listener receives messages as they arrive (RocketMQ's DefaultMQPushConsumer).

"Push" is a long poll: a task per queue keeps one pull at the broker, which responds when a message arrives. A pulled
message counts towards flow control until a listener has finished with it, and the offset moves only after that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Annotated, Any, Final, Literal, Unpack, overload

from bolide.client.consuming import broker_requests
from bolide.client.consuming.activity import Activity, activity_of
from bolide.client.consuming.concurrent import ConcurrentConsumption
from bolide.client.consuming.consumption import ConsumeSetup, Consumption
from bolide.client.consuming.flow_options import DEFAULT_FLOW
from bolide.client.consuming.group_member import GroupMember
from bolide.client.consuming.listeners import Listeners
from bolide.client.consuming.locks import HeldLocks
from bolide.client.consuming.membership import BROADCASTING, PASSIVELY, model_name
from bolide.client.consuming.offset_store import check_offset_store
from bolide.client.consuming.options import (
    ConsumerCodec,
    ConsumerInterceptors,
    Filters,
    Flow,
    Model,
    OffsetFolder,
    OffsetStoreChoice,
    QueueListenerChoice,
    Start,
    StrategyChoice,
    Suspend,
    Trace,
)
from bolide.client.consuming.orderly import OrderlyConsumption
from bolide.client.consuming.queue_consumer import QueueConsumer
from bolide.client.consuming.queue_pulls import PullSettings, QueuePulls
from bolide.client.consuming.send_back import DEFAULT_MAX_RECONSUME_TIMES
from bolide.client.consuming.strategies import find_strategy
from bolide.client.instance.options import DEFAULT_NAMESRV, ClientOptions, ConnectionOptions, Group, NameServers
from bolide.client.instance.request_reply import send_reply
from bolide.client.messages.arguments import (
    check_callable,
    check_count,
    check_topic,
)
from bolide.client.messages.checked import (
    ANY,
    FROM_ONE,
    FROM_ZERO,
    SECONDS,
    SECONDS_OR_ZERO,
    Allowed,
    checked_methods,
    documented,
)
from bolide.client.messages.codec import Codec, CodecChoice, find_codec
from bolide.client.messages.errors import ClientStateError
from bolide.client.messages.light_queues import check_parent
from bolide.client.messages.listener import BATCH, BatchListener, Listener, ListenerCall, takes_list
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.received import ReceivedMessage
from bolide.client.messages.subscription import Selector
from bolide.client.messages.user_code import is_within
from bolide.client.producing.producer import tracer
from bolide.client.tracing.interceptor import around, tell_joined, tell_left
from bolide.layout.names import RETRY_PREFIX
from bolide.remoting import codes
from bolide.remoting.command import Command

log = logging.getLogger("bolide.client")

NO_SUBSCRIPTION_AFTER: Final = 3.0
"""Seconds after the start at which a consumer without subscriptions logs a warning."""


RECONSUME: Final = Allowed("from 0; -1: 16, orderly no limit", partial(check_count, least=0, off=-1))


@checked_methods
@documented
class PushConsumer(QueueConsumer):
    """Consumes in a group. ``async with PushConsumer("group") as push: push.subscribe(topic, "*", listener)``"""

    def __init__(
        self,
        group: Group,
        namesrv: NameServers = DEFAULT_NAMESRV,
        *,
        model: Model = "clustering",
        start_from: Start = "last",
        orderly: Annotated[
            bool, ANY("Deliver the messages of a queue one after the other. A message that fails delays its queue.")
        ] = False,
        strategy: StrategyChoice = "AVG",
        concurrency: Annotated[
            int, FROM_ONE("Listener calls at the same time, and threads for listeners that are not async.")
        ] = 20,
        max_reconsume_times: Annotated[
            int, RECONSUME("Attempts after the first, before a message is a dead letter.")
        ] = -1,
        consume_timeout: Annotated[
            float,
            SECONDS("A message is sent back for redelivery if its listener takes longer (not orderly)."),
        ] = 900.0,
        flow: Flow = DEFAULT_FLOW,
        suspend: Suspend = 15.0,
        orderly_pause: Annotated[
            float, SECONDS("Pause of a queue before an orderly listener gets a failed message again.")
        ] = 1.0,
        send_subscription: Annotated[
            bool, ANY("Send the filter with each pull, for a broker that should not look it up.")
        ] = False,
        codec: ConsumerCodec = None,
        interceptors: ConsumerInterceptors = (),
        trace: Trace = False,
        offset_folder: OffsetFolder = None,
        offset_store: OffsetStoreChoice = None,
        filters: Filters = (),
        queue_listener: QueueListenerChoice = None,
        **connection: Unpack[ConnectionOptions],
    ) -> None:
        """Does not connect before `start`. Raises `ArgumentError`, which names the argument, if one is invalid."""
        self._orderly = orderly
        self._concurrency = concurrency
        self._max_times = max_reconsume_times
        self._consume_timeout = consume_timeout
        self._orderly_pause = orderly_pause
        shared = model_name(model)
        offset_store = check_offset_store(offset_store, offset_folder)
        self._codec = find_codec(codec)
        settings = PullSettings(flow, suspend, send_subscription, filters)
        options = ClientOptions.of(namesrv, fixed_name=shared == BROADCASTING, **connection)
        if trace:
            interceptors = (*interceptors, tracer(f"{group}-CONSUME", options))
        member = GroupMember(
            group, options, shared, PASSIVELY, start_from, find_strategy(strategy), self._serve, queue_listener, orderly
        )
        self._listeners = Listeners(options.namespace)
        self._locks = HeldLocks(member)
        self._threads = options.world.pool(concurrency, f"bolide-{group}")
        self._consumption = self._make_consumption(member)
        self._pulls = QueuePulls(member, settings, self._consumption, self._codec_of, self._locks if orderly else None)
        super().__init__(group, member, self._pulls, interceptors, offset_folder, offset_store, self._consumption)

    # -- subscriptions

    @overload
    def subscribe(
        self,
        topic: str,
        expression: str | Selector,
        listener: Listener,
        *,
        batch: Literal[0] | None = None,
        parent: str = "",
        codec: CodecChoice = None,
    ) -> None: ...

    @overload
    def subscribe(
        self,
        topic: str,
        expression: str | Selector,
        listener: BatchListener,
        *,
        batch: int | None = None,
        parent: str = "",
        codec: CodecChoice = None,
    ) -> None: ...

    def subscribe(
        self,
        topic: str,
        expression: str | Selector,
        listener: Listener | BatchListener,
        *,
        batch: Annotated[int | None, FROM_ZERO] = None,
        parent: str = "",
        codec: CodecChoice = None,
    ) -> None:
        """Subscribe to messages of a topic: ``"*"``, ``"TagA || TagB"``, or ``sql("a > 5")``.

        `listener` is called with one message, or with `batch` above 0 with a list of at most `batch` messages of one
        queue. Without `batch`, a listener whose argument is annotated as a list gets up to 256 messages. It may be
        async, or synchronous (then it runs in a thread). If it returns nothing, the messages are consumed. False,
        `ConsumeResult.RETRY` or an exception mean a retry; an int is the number of consumed messages at the front of
        the list. For a light queue, ``lmq("room-1")``, `parent` is the topic its messages are sent to. `codec` decodes
        the messages of this topic, instead of the consumer's codec.
        """
        check_topic(topic)
        check_parent(topic, parent)
        if batch is None:
            batch = BATCH if callable(listener) and takes_list(listener) else 0
        check_callable("listener", listener, "messages" if batch else "message")
        world = self._member.options.world
        decoder = self._codec if codec is None else find_codec(codec)
        seen = around(listener, batch, self._group, self._interceptors, decoder, world)
        self._listeners.add(topic, ListenerCall(seen, batch, decoder))
        self._member.subscribe(topic, expression, parent)

    def _codec_of(self, message: ReceivedMessage) -> Codec | None:
        return self._listeners.of(message).codec

    async def unsubscribe(self, topic: str) -> None:
        """Remove the subscription of a topic, so that the other members get its queues.

        If called in a listener of this consumer, it returns immediately, and the queues are released once that listener
        has returned.
        """
        self._member.forget(topic)
        releasing = self._release(topic, self._listeners.get(topic))
        if is_within(self._consumption) or self._member.queue_calls.calling:
            self._member.instance.spawn(releasing, f"unsubscribe {self._group}")
        else:
            await releasing

    async def _release(self, topic: str, listener: ListenerCall | None) -> None:
        await self._member.release(topic)
        self._listeners.remove(topic, listener)  # not before: messages of the topic may still arrive

    # -- life cycle

    async def _join(self) -> None:
        await super()._join()
        tell_joined(self._interceptors, self._group, self._member.cached)
        self._member.instance.spawn(self._mind_subscriptions(), f"subscriptions {self._group}")
        if self._orderly:
            self._member.instance.keep(self._locks.refresh_always, f"locks {self._group}")

    async def _mind_subscriptions(self) -> None:
        await asyncio.sleep(NO_SUBSCRIPTION_AFTER)
        if not self._member.subscriptions and self._started:
            log.warning(
                "consumer %s has no subscription, so it receives no messages: call subscribe(topic, ...)", self._group
            )

    def _make_consumption(self, member: GroupMember) -> Consumption:
        limit = DEFAULT_MAX_RECONSUME_TIMES if self._max_times < 0 and not self._orderly else self._max_times
        setup = ConsumeSetup(
            member, self._listeners.of, self._listeners.of_all, self._concurrency, limit, self._threads
        )
        if self._orderly:
            return OrderlyConsumption(setup, self._locks, self._orderly_pause)
        return ConcurrentConsumption(setup, self._consume_timeout)

    async def _stop(self, complete: bool) -> None:
        self._pulls.stop()
        await self._consumption.close()
        tell_left(self._interceptors, self._group, self._member.cached)

    async def _end(self, complete: bool) -> None:
        await super()._end(complete)
        self._threads.shutdown(wait=False)

    # -- state and control

    def assignment(self) -> list[MessageQueue]:
        """Return the queues held now, without queues of the retry topic."""
        return [queue for queue in super().assignment() if not queue.topic.startswith(RETRY_PREFIX)]

    def activity(self) -> Activity:
        """Return the times of the last pull and the last listener call, for a liveness probe."""
        now = asyncio.get_running_loop().time()
        owned, listened = self._member.owned.values(), self._member.stats.listened
        return activity_of(owned, self._pulls.paused, listened, now, self.refusal)

    def position(self, queue: MessageQueue) -> int:
        """Return the offset of the next message to consume of a held queue: all messages before it are consumed.

        Raises `ClientStateError` if the consumer is not running, or does not hold the queue.
        """
        process_queue = self._held(queue)
        consumed = self._member.store.get(queue)
        if consumed >= 0:
            return consumed
        first = process_queue.commit_offset
        return first if first >= 0 else process_queue.next_offset

    async def reply_to(
        self, request: ReceivedMessage, body: bytes, timeout: Annotated[float | None, SECONDS] = None
    ) -> None:
        """Reply to a message that was sent by `Producer.request`.

        Raises `MessageRefused` for any other message, and `ResponseError` if the requester has disconnected.
        """
        await send_reply(
            self._member.instance, self._group, request, body, self._member.options.world.wall_ms(), timeout
        )

    async def drain(self, timeout: Annotated[float | None, SECONDS_OR_ZERO] = None) -> bool:
        """Stop pulling, and wait until all pulled messages are consumed and their offsets are stored.

        Returns False after `timeout` seconds, otherwise True. The queues stay assigned until `close`, and `resume`
        continues pulling. Raises `ClientStateError` in a listener of this consumer.
        """
        self._check_outside_listener("drain")
        drained = True
        try:
            async with asyncio.timeout(timeout):
                await self._pulls.drain()
        except TimeoutError:
            drained = False
        await self.commit()
        return drained

    def _check_seek(self) -> None:
        self._check_outside_listener("seek")
        self._member.queue_calls.check_outside("seek")

    async def _move(self, queue: MessageQueue, offset: int) -> None:
        await self._pulls.seek(queue, offset)

    def _check_outside_listener(self, method: str) -> None:
        self._check_running()
        if is_within(self._consumption):
            raise ClientStateError(
                f"{method} waits for the listeners of consumer {self._group}, so a listener of it cannot call {method}:"
                " call it elsewhere"
            )

    # -- requests of brokers

    def _serve(self, command: Command) -> Command | Coroutine[Any, Any, Command | None] | None:
        if command.code == codes.CONSUME_MESSAGE_DIRECTLY and self._started:
            return broker_requests.consume_directly(command, self._listeners.of, self._threads, self._orderly)
        return super()._serve(command)
