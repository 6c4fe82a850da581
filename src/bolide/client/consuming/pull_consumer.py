"""PullConsumer: the caller requests messages (RocketMQ's DefaultLitePullConsumer).

The group (`subscribe`) or the caller (`assign`) selects the queues. A background task prefetches messages. Messages
that `poll` returned are treated as consumed at the next `poll` (or at `commit`, if `auto_commit` is off).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Annotated, Final, Unpack

from bolide.client.consuming.flow_options import BATCH, DEFAULT_FLOW
from bolide.client.consuming.group_member import GroupMember
from bolide.client.consuming.lent import Lent
from bolide.client.consuming.membership import ACTIVELY, BROADCASTING, model_name
from bolide.client.consuming.message_filter import wanted_messages
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
from bolide.client.consuming.prefetch import Prefetch
from bolide.client.consuming.pull import PullRequest, PullResult, pull
from bolide.client.consuming.queue_consumer import QueueConsumer
from bolide.client.consuming.strategies import find_strategy
from bolide.client.instance.options import DEFAULT_NAMESRV, ClientOptions, ConnectionOptions, Group, NameServers
from bolide.client.messages.arguments import (
    check_count,
    check_queues,
    check_seconds,
    check_topic,
)
from bolide.client.messages.checked import ANY, FROM_ONE, FROM_ZERO, SECONDS_OR_ZERO, checked_methods, documented
from bolide.client.messages.codec import Codec, CodecChoice, find_codec
from bolide.client.messages.errors import ClientStateError
from bolide.client.messages.light_queues import check_parent
from bolide.client.messages.namespace import with_namespace
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.received import ReceivedMessage
from bolide.client.messages.subscription import Selector, subscription
from bolide.client.producing.producer import tracer
from bolide.client.tracing.interceptor import see_polled

ITERATED: Final = 60.0
"""Timeout in seconds of a poll for an iterator, which then repeats it."""
LENT: Final = 64
"""Maximum number of messages that an iterator requests in advance."""


@checked_methods
@documented
class PullConsumer(QueueConsumer):
    """Consumes by polling. ``async with PullConsumer("group") as consumer: async for message in consumer: ...``"""

    def __init__(
        self,
        group: Group,
        namesrv: NameServers = DEFAULT_NAMESRV,
        *,
        model: Model = "clustering",
        start_from: Start = "last",
        auto_commit: Annotated[
            bool,
            ANY(
                "Each `poll` marks the messages of the last `poll` as consumed; their offsets are stored every"
                " `persist_interval` seconds. If False, only `commit` moves offsets."
            ),
        ] = True,
        strategy: StrategyChoice = "AVG",
        flow: Flow = DEFAULT_FLOW,
        suspend: Suspend = 20.0,
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
        self._auto_commit = auto_commit
        self._codec = find_codec(codec)
        self._codecs: dict[str, Codec | None] = {}
        """Codecs given to `subscribe` or `assign`, by topic with the namespace."""
        self._filters = filters
        shared = model_name(model)
        offset_store = check_offset_store(offset_store, offset_folder)
        options = ClientOptions.of(namesrv, fixed_name=shared == BROADCASTING, **connection)
        if trace:
            interceptors = (*interceptors, tracer(f"{group}-CONSUME", options))
        member = GroupMember(
            group, options, shared, ACTIVELY, start_from, find_strategy(strategy), self._serve, queue_listener
        )
        self._prefetch = Prefetch(member, flow, suspend, self._codec_of, filters, auto_commit)
        super().__init__(group, member, self._prefetch, interceptors, offset_folder, offset_store)

    # -- life cycle

    def _closing(self) -> None:
        super()._closing()
        self._prefetch.end()

    async def _stop(self, complete: bool) -> None:
        # After an error the last messages may not be processed completely, so they are redelivered.
        if complete and self._auto_commit:
            self._prefetch.consumed()

    # -- which queues

    def subscribe(
        self, topic: str, expression: str | Selector = "*", *, parent: str = "", codec: CodecChoice = None
    ) -> None:
        """Share the queues of a topic with the group: ``"*"``, ``"TagA || TagB"``, or ``sql("a > 5")``.

        For a light queue, ``lmq("room-1")``, `parent` is the topic its messages are sent to. `codec` decodes the
        messages of this topic, instead of the consumer's codec. Raises `ClientStateError` if queues are assigned.
        """
        if self._prefetch.assigned is not None:
            raise ClientStateError("queues are assigned already, subscribe to topics or assign queues, not both")
        check_topic(topic)
        decoder = find_codec(codec)
        self._member.subscribe(topic, expression, parent)
        self._use_codec(with_namespace(self._member.options.namespace, topic), decoder)

    def _use_codec(self, topic: str, codec: Codec | None) -> None:
        if codec is None:
            self._codecs.pop(topic, None)
        else:
            self._codecs[topic] = codec

    def _codec_of(self, queue: MessageQueue) -> Codec | None:
        return self._codecs.get(queue.topic, self._codec)

    async def unsubscribe(self, topic: str) -> None:
        """Release the queues of a topic."""
        self._member.forget(topic)
        if self._member.queue_calls.calling:
            self._member.instance.spawn(self._member.release(topic), f"unsubscribe {self._group}")
        else:
            await self._member.release(topic)

    async def assign(
        self,
        queues: Iterable[MessageQueue],
        expression: str | Selector = "*",
        *,
        parent: str = "",
        codec: CodecChoice = None,
    ) -> None:
        """Read exactly these queues, starting at the group's stored offsets, even if other members read them.

        Call it after `start`. For light queues (LMQ), `parent` is the topic their messages are sent to. `codec` decodes
        the messages of these queues' topics, instead of the consumer's codec. Raises `ClientStateError` if topics are
        subscribed, and `NoQueue` if a queue cannot be acquired.
        """
        self._check_running()
        if self._member.subscriptions:
            raise ClientStateError("topics are subscribed already, subscribe to topics or assign queues, not both")
        wanted = check_queues("queues", queues)
        decoder = find_codec(codec)
        chosen = subscription("", expression, self._member.options.world.wall_ms())
        before, self._prefetch.assigned = self._prefetch.assigned, chosen
        try:
            for topic in dict.fromkeys(queue.topic for queue in wanted):
                check_parent(topic, parent)
                if parent:
                    self._member.instance.parents[topic] = with_namespace(self._member.options.namespace, parent)
                await self._member.instance.route(topic)
                self._use_codec(topic, decoder)
        except BaseException:
            self._prefetch.assigned = before
            raise
        await self._member.take_exactly(wanted)

    async def queues(self, topic: str, *, parent: str = "") -> list[MessageQueue]:
        """Return all readable queues of a topic. For a light queue (LMQ), `parent` is required. Raises
        `TopicNotFound`, and `ArgumentError` for an invalid name."""
        check_topic(topic)
        check_parent(topic, parent)
        instance, namespace = self._member.instance, self._member.options.namespace
        if parent:
            instance.parents[topic] = with_namespace(namespace, parent)
        return (await instance.fetch_route(with_namespace(namespace, topic))).read_queues()

    # -- reading

    async def poll(self, timeout: float = 5.0, max_messages: int = 32) -> list[ReceivedMessage]:
        """Return up to `max_messages` messages, or [] if no message arrives within `timeout` seconds.

        Raises `ClientStateError` if the consumer is not started, is closed, or has no topic or queues. Raises
        `ResponseError` instead of returning [] while brokers reject the group or its expression.
        """
        self._check_running()
        check_seconds("timeout", timeout, zero=True)
        check_count("max_messages", max_messages, 1)
        if not self._member.subscriptions and self._prefetch.assigned is None:
            raise ClientStateError(
                f"consumer {self._group} has no topic or queue: call subscribe(topic) or assign(queues) first"
            )
        if self._auto_commit:
            self._prefetch.consumed()
        messages = await self._prefetch.messages(timeout, max_messages)
        if messages and self._interceptors:
            see_polled(self._group, messages, self._interceptors, self._member.options.world)
        return messages

    def _give_back(self, messages: list[ReceivedMessage]) -> None:
        """Return messages that the caller of `poll` did not receive to the cache, for the next poll."""
        self._prefetch.give_back(messages)

    async def pull(
        self,
        queue: MessageQueue,
        offset: Annotated[int, FROM_ZERO],
        max_messages: Annotated[int, BATCH] = 32,
        *,
        expression: str | Selector = "*",
        wait: Annotated[float, SECONDS_OR_ZERO] = 0.0,
    ) -> PullResult:
        """Pull up to `max_messages` messages from any queue, held or not, starting at `offset`.

        Returns immediately, or after at most `wait` seconds if there is no message yet. The result contains the next
        offset. Does not change the group's offsets. Raises `TopicNotFound`, `NoQueue`, `ResponseError`,
        `ConnectionLost`.
        """
        self._check_running()
        instance = self._member.instance
        await instance.route(queue.topic)
        wanted = subscription(queue.topic, expression, self._member.options.world.wall_ms())
        result = await pull(
            instance,
            PullRequest(self._member.group, queue, offset, wanted, max_messages, wait, send_subscription=True),
        )
        decoder = self._codec_of(queue)
        for message in result.messages:
            message.codec = decoder
        result.messages, _ = wanted_messages(result.messages, self._filters, lambda message: decoder)
        return result

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Iterate over messages until `close`; with `auto_commit` each is consumed when the next is requested."""
        while not self._closed:
            for message in await self._lend():
                yield message

    async def batches(self, max_messages: Annotated[int, FROM_ONE] = 256) -> AsyncIterator[list[ReceivedMessage]]:
        """Iterate over lists of up to `max_messages` messages until `close`; with `auto_commit` each list is consumed
        when the next is requested.

        A list contains the messages that were fetched, also of several queues. It is never empty.
        """
        while not self._closed:
            messages = await self.poll(ITERATED, max_messages)
            if messages:
                yield messages

    async def _lend(self) -> Lent:
        # An interceptor is called when the caller gets a message, so messages are not requested in advance for it.
        return self._prefetch.lend(await self.poll(ITERATED, 1 if self._interceptors else LENT))

    async def _lent(self) -> AsyncIterator[Lent]:
        """Iterate over lists of messages for the blocking iterator."""
        while not self._closed:
            yield await self._lend()

    def _take_back(self, _: Lent) -> None:
        self._prefetch.settle()

    # -- offsets

    async def commit(self) -> None:
        """Mark all returned messages as consumed and store the offsets; return when the brokers have responded."""
        self._check_running()
        self._prefetch.consumed()
        await super().commit()

    def position(self, queue: MessageQueue) -> int:
        """Return the offset of the next message that `poll` returns from a held queue.

        Raises `ClientStateError` if the consumer is not running, or does not hold the queue.
        """
        process_queue = self._held(queue)
        self._prefetch.settle()
        waiting = process_queue.waiting
        return waiting[0].queue_offset if waiting else process_queue.next_offset

    async def _move(self, queue: MessageQueue, offset: int) -> None:
        await self._prefetch.seek(self._held(queue), offset)

    async def _reset_queue(self, queue: MessageQueue, offset: int) -> None:
        await self._move(queue, offset)
        self._member.store.update(queue, offset)
        await self._member.store.persist([queue], wait=True)
