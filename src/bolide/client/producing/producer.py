"""Producer: sends messages concurrently, and tries another broker if one fails (RocketMQ's DefaultMQProducer).

Defaults as in 5.5.0: 3 s for all tries together, two more tries on other brokers, and zlib for bodies of 4,096 bytes
and more. Topics unknown to the name server are created through the template topic TBW102.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Annotated, Final, Self, Unpack

from bolide.client.instance.deadlines import before
from bolide.client.instance.instance import ClientInstance
from bolide.client.instance.options import DEFAULT_NAMESRV, ClientOptions, ConnectionOptions, Group, NameServers
from bolide.client.instance.process_id import is_parents
from bolide.client.instance.request_reply import send_reply
from bolide.client.instance.unclosed import Closeable
from bolide.client.messages.arguments import check_several, check_topic
from bolide.client.messages.checked import (
    ANY,
    FROM_ONE,
    FROM_ZERO,
    SECONDS,
    Allowed,
    checked_methods,
    documented,
    one_of,
)
from bolide.client.messages.codec import CodecsByTopic, codec_of, find_codecs
from bolide.client.messages.errors import ClientStateError, MessageRefused
from bolide.client.messages.message import Message
from bolide.client.messages.namespace import with_namespace
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.received import ReceivedMessage
from bolide.client.messages.send_result import SendResult
from bolide.client.producing.many import ManySends
from bolide.client.producing.message_sender import MessageSender
from bolide.client.producing.publish import PublishRoutes, QueueChoice
from bolide.client.producing.retry import Retry
from bolide.client.producing.send_context import SendSettings
from bolide.client.tracing.interceptor import Interceptor, close_all, start_all
from bolide.client.tracing.tracer import TRACE_GROUP, TRACE_TIMEOUT, Tracer
from bolide.errors import ConnectionLost, RequestTimeout
from bolide.layout.limits import DEFAULT_MAX_MESSAGE_SIZE
from bolide.remoting import codes
from bolide.remoting.compression import NAMES
from bolide.remoting.errors import BodyError
from bolide.remoting.headers.recall import RecallMessageRequestHeader
from bolide.remoting.recall_handle import decode_recall_handle

DEFAULT_GROUP: Final = "DEFAULT_PRODUCER"
SEND_TIMEOUT: Final = 3.0
"""Seconds for one message, with all its tries."""
MAX_IN_FLIGHT: Final = 4096
MAX_IN_FLIGHT_BYTES: Final = 100 * 1024 * 1024
RETRY: Final = Retry()


class ProducerOptions(ConnectionOptions, total=False):
    """The keywords of `Producer`, for a class that passes them on."""

    timeout: float
    retry: Retry
    max_in_flight: int
    max_in_flight_bytes: int
    compress_above: int
    compression: str
    max_body: int
    queue_count: int
    codec: CodecsByTopic
    interceptors: tuple[Interceptor, ...]
    trace: bool
    auto_batch: bool


COMPRESSION: Final = Allowed('`"ZLIB"`, `"LZ4"`, `"ZSTD"`', one_of(*NAMES))


@checked_methods
@documented
class Producer(Closeable):
    """Sends messages to brokers found through name servers. ``async with Producer("group") as producer: ...``

    Use a producer on the event loop it was started on.
    """

    def __init__(
        self,
        group: Group = DEFAULT_GROUP,
        namesrv: NameServers = DEFAULT_NAMESRV,
        *,
        timeout: Annotated[float, SECONDS("Limit for one message, with all its tries.")] = SEND_TIMEOUT,
        retry: Annotated[Retry, ANY("When a send is retried, and at which brokers.", "a `Retry`")] = RETRY,
        max_in_flight: Annotated[
            int,
            FROM_ONE(
                "Messages without a response. At this limit `send` waits, and `submit` raises `TooFast`.", "messages"
            ),
        ] = MAX_IN_FLIGHT,
        max_in_flight_bytes: Annotated[
            int, FROM_ONE("`max_in_flight` in bytes of bodies. A longer message is sent alone.", "bytes")
        ] = MAX_IN_FLIGHT_BYTES,
        compress_above: Annotated[int, FROM_ZERO("Bodies from this size on are compressed.", "bytes")] = 4096,
        compression: Annotated[str, COMPRESSION("How bodies are compressed; every consumer must support it.")] = "ZLIB",
        max_body: Annotated[
            int, FROM_ONE("Larger bodies are rejected. Brokers have their own limit (maxMessageSize).", "bytes")
        ] = DEFAULT_MAX_MESSAGE_SIZE,
        queue_count: Annotated[int, FROM_ONE("Queues on each broker of a topic that a send creates.")] = 4,
        codec: Annotated[
            CodecsByTopic,
            ANY(
                "Makes the body of a message out of its `value`.", '`"json"`, a type, a `Codec`, several by topic, None'
            ),
        ] = None,
        interceptors: Annotated[tuple[Interceptor, ...], ANY("Called around each send.", "`Interceptor` objects")] = (),
        trace: Annotated[bool, ANY("Send a message trace of each message, as RocketMQ's clients do.")] = False,
        auto_batch: Annotated[
            bool, ANY("Send messages of one queue in one request if they arrive while another is in flight.")
        ] = True,
        **connection: Unpack[ConnectionOptions],
    ) -> None:
        """Does not connect before `start`. Raises `ArgumentError`, which names the argument, if one is invalid."""
        options = self._options_of(namesrv, connection)
        if trace:
            interceptors = (*interceptors, tracer(f"{group}-PRODUCE", options))
        settings = SendSettings(
            timeout=timeout,
            retry=retry,
            max_in_flight=max_in_flight,
            max_in_flight_bytes=max_in_flight_bytes,
            compress_above=compress_above,
            compression=NAMES[compression],
            max_body=max_body,
            codec=find_codecs(codec),
            interceptors=interceptors,
            auto_batch=auto_batch,
        )
        self._group = group
        self._sender = MessageSender(
            with_namespace(options.namespace, group), options, PublishRoutes(queue_count), settings
        )
        self._announced: set[str] = set()
        self._lock = asyncio.Lock()

    def _options_of(self, namesrv: str | Sequence[str], connection: ConnectionOptions) -> ClientOptions:
        return ClientOptions.of(namesrv, **connection)

    # -- life cycle

    async def start(self) -> Self:
        """Join the shared client of this process. A second call does nothing. Raises `ClientStateError` if the producer
        is closed."""
        sender = self._sender
        self._check_open(f"producer {sender.group}")
        if self._is_starting(self._lock, sender.interceptors):
            return self
        async with self._lock:
            self._check_open(f"producer {sender.group}")
            if sender.joined is None:
                instance = ClientInstance.acquire(sender.options)
                try:
                    instance.add_producer(sender)
                except ClientStateError:
                    await instance.release()
                    raise
                sender.started_on(instance)
                try:
                    await start_all(sender.interceptors)
                except BaseException:
                    await asyncio.shield(self._leave(instance))
                    raise
                self._opened(f"{type(self).__name__} of group {sender.group}")
        return self

    async def close(self) -> None:
        """Wait for pending responses (at most `timeout` seconds each), then leave the shared client.

        A second call does nothing. If called in an interceptor of this producer, it returns immediately, and the
        producer closes in the background.
        """
        if is_parents(self._sender.pid):
            return  # a forked child would send over the connections of its parent
        self._closed = self._sender.closed = True
        self._closing()
        await self._close_outside(self._close, self._sender.interceptors, self)

    async def _close(self) -> None:
        async with self._lock:
            sender = self._sender
            instance = sender.joined
            if instance is None:
                return
            try:
                await sender.wait_until_idle()
            finally:
                await asyncio.sleep(0)  # let the interceptors get the latest outcomes first
                await asyncio.shield(self._leave(instance))

    async def _leave(self, instance: ClientInstance) -> None:
        await close_all(self._sender.interceptors)
        self._sender.joined = None
        await instance.remove_producer(self._sender.group)
        await instance.release()

    async def flush(self, timeout: Annotated[float | None, SECONDS] = None) -> None:
        """Wait until the future of every message sent so far has a result or an error.

        Raises `RequestTimeout` if some futures have neither after `timeout` seconds; their messages stay in flight.
        """
        self._sender.check_usable()
        waiting = [sending.future for sending in self._sender.in_flight]
        left = (await asyncio.wait(waiting, timeout=timeout))[1] if waiting else ()
        if left:
            raise RequestTimeout(
                f"{len(left)} of {len(waiting)} sends of producer {self._sender.group} have no result"
                f" after {timeout:g} s: they stay in flight"
            )

    def _state(self) -> str:
        return f"group {self._group!r}, {self._sender.count} in flight"

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def group(self) -> str:
        """The group given to the constructor."""
        return self._group

    @property
    def client_id(self) -> str:
        """The id of this client at the brokers."""
        return self._sender.options.client_id

    @property
    def in_flight(self) -> int:
        """Number of messages without a response."""
        return self._sender.count

    # -- sending

    async def send(
        self, message: Message, *, queue: QueueChoice | None = None, timeout: float | None = None
    ) -> SendResult:
        """Send one message and return where it is stored. Waits while `max_in_flight` messages, or
        `max_in_flight_bytes`, are in flight.

        `queue` is a queue or a function that selects one; the message's `sharding_key` also selects a queue. Messages
        are tried until `timeout` while a broker is down, busy or no longer the master. A try whose response was lost
        may have stored the message, so it can be stored twice. A message bound to a queue is retried only at that
        queue, and only if no broker can have stored it; later messages of the queue wait. Raises `MessageRefused`,
        `TopicNotFound`, `ResponseError`, `SendFailed` (after all tries), `RequestTimeout`.
        """
        sender = self._sender
        if sender.waiting or sender.count >= sender.max_in_flight or sender.size >= sender.max_bytes:
            await sender.wait_for_slots(1, sender.size_of(message))
        return await sender.accept(message, queue, timeout).future

    def submit(
        self, message: Message, *, queue: QueueChoice | None = None, timeout: float | None = None
    ) -> asyncio.Future[SendResult]:
        """Send without waiting; return a future of the result.

        Raises `TooFast` if `max_in_flight` messages, or `max_in_flight_bytes`, are in flight (the blocking client sets
        it in the future instead).
        """
        self._sender.check_bytes(message)
        return self._sender.accept(message, queue, timeout).future

    async def send_many(
        self, messages: Iterable[Message], *, queue: QueueChoice | None = None
    ) -> list[SendResult | BaseException]:
        """Send all messages, as concurrently as allowed. Return one outcome per message, in order: a result or an
        error.

        Messages of one topic are sent together, in one request per queue. The messages of a queue stay in order, unless
        they must be resent. A message that a batch cannot contain (with a delay, light queues, or a body to compress)
        is sent alone. An invalid message does not affect the others; a failed request fails each message in it. If a
        broker rejects a batch because of its content, its messages are resent one by one, after messages sent in the
        meantime. Raises `ClientStateError` if the producer is not started, and `ClientForked`.
        """
        self._sender.check_usable()
        return await ManySends(self._sender, queue).send(check_several("messages", messages))

    async def send_batch(
        self, messages: Iterable[Message], *, queue: QueueChoice | None = None, timeout: float | None = None
    ) -> SendResult:
        """Store several messages of one topic atomically, with one request.

        Raises `MessageRefused` if they differ in topic or `wait_stored`, exceed `max_body` together, have a delay, or
        are for a %RETRY% topic.
        """
        sender = self._sender
        listed = list(check_several("messages", messages))
        await sender.wait_for_slots(1, sum(map(sender.size_of, listed)))
        return await sender.accept_batch(listed, queue, timeout).future

    async def send_oneway(self, message: Message, *, queue: QueueChoice | None = None) -> None:
        """Send without requesting a response: fast, but a loss is not detected."""
        await self._sender.wait_for_slots(1, self._sender.size_of(message))
        await self._sender.accept(message, queue, None, oneway=True).future

    async def recall(self, topic: str, handle: str, timeout: Annotated[float | None, SECONDS] = None) -> str:
        """Recall a delayed message by the `recall_handle` of its result; return its message id.

        The broker, which needs recallMessageEnable=true, records the request. A message that is just due may still be
        delivered. Raises `MessageRefused` for an invalid handle, and `ResponseError` if the message is already due.
        """
        sender = self._sender
        topic = with_namespace(sender.options.namespace, topic)
        return await _recall(sender.instance, sender.group, topic, handle, timeout)

    async def request(
        self, message: Message, timeout: Annotated[float, SECONDS] = SEND_TIMEOUT, *, queue: QueueChoice | None = None
    ) -> ReceivedMessage:
        """Send a message and return the reply of its consumer (`reply_to`), within `timeout` seconds.

        Raises like `send`, and `RequestTimeout` without a reply. It is then unknown whether the message was consumed.
        """
        sender = self._sender
        instance = sender.instance
        deadline = sender.loop.time() + timeout
        correlation_id = str(uuid.UUID(int=sender.options.world.random.getrandbits(128), version=4))
        answer: asyncio.Future[ReceivedMessage] = sender.loop.create_future()
        instance.replies.waiting[correlation_id] = answer
        try:
            async with asyncio.timeout_at(deadline):
                await self._announce(with_namespace(sender.options.namespace, message.topic))
                await sender.wait_for_slots(1, sender.size_of(message))
            marks = (
                f"CORRELATION_ID\x01{correlation_id}\x02REPLY_TO_CLIENT\x01{instance.client_id}\x02"
                f"TTL\x01{int(timeout * 1000)}\x02"
            )
            left = max(deadline - sender.loop.time(), 0.001)
            await sender.accept(message, queue, left, marks=marks).future
            async with asyncio.timeout_at(deadline):
                received = await answer
            received.codec = codec_of(sender.codec, message.topic)
            return received
        except RequestTimeout:
            raise
        except TimeoutError:
            raise RequestTimeout(f"no response to a request to {message.topic} within {timeout} s") from None
        finally:
            del instance.replies.waiting[correlation_id]

    async def reply_to(
        self, request: ReceivedMessage, body: bytes, timeout: Annotated[float | None, SECONDS] = None
    ) -> None:
        """Reply to a message that was sent by `request`. Raises `MessageRefused` for any other message, and
        `ResponseError` if the requester has disconnected."""
        sender = self._sender
        await send_reply(sender.instance, sender.group, request, body, sender.wall_ms(), timeout)

    async def _announce(self, topic: str) -> None:
        """Register with the brokers of a topic before the first request to it, so that they can push the reply."""
        if topic not in self._announced:
            instance = self._sender.instance
            await self._sender.routes.load(instance, topic)
            await instance.heartbeats.send()
            self._announced.add(topic)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that messages can be sent to. Raises `TopicNotFound`, and `MessageRefused` for
        an invalid name."""
        check_topic(topic)
        sender = self._sender
        return list((await sender.routes.load(sender.instance, with_namespace(sender.options.namespace, topic))).queues)


async def _recall(instance: ClientInstance, group: str, topic: str, handle: str, timeout: float | None) -> str:
    """Request that the broker of a message drop it (RECALL_MESSAGE, 370); return the message's id."""
    try:
        broker_name = decode_recall_handle(handle).broker_name
    except BodyError as error:
        raise MessageRefused(f"{error}: take recall_handle of the result of a delayed message", "handle") from None
    loop = asyncio.get_running_loop()
    deadline = loop.time() + (instance.options.call_timeout if timeout is None else timeout)
    if instance.master_address(broker_name) is None:
        late = f"the route of topic {topic} was not found within the time allowed: the message was not recalled"
        await before(deadline, instance.fetch_route(topic), late)
    address = instance.master_address(broker_name)
    if address is None:
        raise ConnectionLost(f"broker {broker_name} has no master now: the message cannot be recalled")
    header = RecallMessageRequestHeader(topic=topic, recall_handle=handle, producer_group=group)
    ext = {**header.to_ext(), "bname": broker_name}
    left = max(deadline - loop.time(), 0.001)
    answer = await instance.call(address, codes.RECALL_MESSAGE, ext, timeout=left)
    return answer.ext().get("msgId", "")


def tracer(name: str, options: ClientOptions) -> Tracer:
    """Return a tracer for a client with these options. It has a separate producer."""
    return Tracer(TraceProducer(f"{TRACE_GROUP}-{name}", options), world=options.world)


class TraceProducer(Producer):
    """Sends the traces of another client, with that client's options."""

    def __init__(self, group: str, options: ClientOptions) -> None:
        self._given = options
        super().__init__(group, timeout=TRACE_TIMEOUT)
        self._sender.group = group  # as in Java, the group of traces has no namespace

    def _options_of(self, namesrv: str | Sequence[str], connection: ConnectionOptions) -> ClientOptions:
        return self._given
