"""SendContext: the part of a producer that each `Sending` uses."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from threading import get_ident
from typing import Any, Final

from mypy_extensions import mypyc_attr

from bolide.client.instance.instance import ClientInstance
from bolide.client.instance.options import ClientOptions
from bolide.client.instance.process_id import process_id
from bolide.client.instance.unique_id import UniqueIds
from bolide.client.messages.arguments import check_seconds
from bolide.client.messages.codec import Codec, TopicCodecs
from bolide.client.messages.errors import ClientStateError, TooFast
from bolide.client.messages.hooks import RpcCall
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.send_result import SendResult
from bolide.client.producing.bound_line import BoundLine
from bolide.client.producing.latency_faults import LatencyFaults
from bolide.client.producing.publish import PublishRoutes
from bolide.client.producing.retry import Retry
from bolide.client.tracing.interceptor import Interceptor
from bolide.remoting import codes
from bolide.remoting.command import Command, encode, make_request
from bolide.transport.client import ClientConnection

MAX_LINES: Final = 10_000
"""Number of lines above which unused ones are removed."""


class AnsweredLane:
    """Base class of requests to one queue. It is not a protocol, because compiled code calls the methods of a protocol
    more slowly."""

    __slots__ = ()

    def answered(self) -> None:
        """Called when a request has a response, or failed."""


class Accumulates(AnsweredLane):
    """Base class of the accumulator, which sends messages of one queue together: see `accumulator.py`. The keys of
    `added` are the brokers of earlier calls of `learn`."""

    def __init__(self) -> None:
        self.added: dict[str, bytes] = {}
        """Properties that each broker adds to single messages, encoded, by the broker's name."""
        self.in_flight = 0
        """Number of requests in flight of all lanes."""

    def add(self, sending: Any, connection: ClientConnection, queue: MessageQueue) -> None:
        """Send a message, a `Sending`, alone or together with others."""

    def schedule(self, lane: Any) -> None:
        """Process a `Lane` when this turn of the loop ends."""

    def learn(self, queue: MessageQueue, result: SendResult) -> None:
        """Store the properties that the broker of a queue adds to a message."""


@mypyc_attr(native_class=False)
@dataclass(frozen=True)
class SendSettings:
    """A producer's options for sends. `timeout` is in seconds, sizes are in bytes."""

    timeout: float
    retry: Retry
    max_in_flight: int
    max_in_flight_bytes: int
    compress_above: int
    compression: int
    max_body: int
    codec: Codec | TopicCodecs | None
    interceptors: tuple[Interceptor, ...]
    auto_batch: bool


class SendContext:
    """Shared by the sends of one producer: the group, the client, the routes, and the limit of messages in flight."""

    def __init__(self, group: str, options: ClientOptions, routes: PublishRoutes, settings: SendSettings) -> None:
        self.group = group
        self.options = options
        self.routes = routes
        retry = settings.retry
        self.faults = LatencyFaults() if retry.latency_faults else None
        self.timeout = settings.timeout
        self.retries = retry.attempts - 1
        self.backoff, self.max_backoff = retry.backoff, retry.max_backoff
        self.max_in_flight = settings.max_in_flight
        self.max_bytes = settings.max_in_flight_bytes
        self.retry_when_not_safe = retry.when_not_safe
        self.wall_ms = options.world.wall_ms
        self._ids = UniqueIds(options.world)
        self.joined: ClientInstance | None = None
        """The shared client between `start` and `close`."""
        self.closed = False
        self.check_transaction: Callable[[str, Command], bool] | None = None
        self.pid = 0
        """Id of the process that called `start`."""
        self._ident = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self.in_flight: set[Any] = set()
        """The `Sending` of each message without a response."""
        self.count = 0
        """Number of messages in flight."""
        self.size = 0
        """Total size of their bodies in bytes."""
        self._last_size = 1
        """Size of the last body, which is assumed for the body of a value that is not encoded yet."""
        self.waiting = 0
        """Number of callers that wait for a place in flight. The next caller waits after them."""
        self._queue: deque[tuple[int, int, asyncio.Future[None]]] = deque()
        self._granted = self._granted_size = 0
        """Number and bytes of places given to callers that have not used them yet."""
        self._idle = asyncio.Event()
        self.lines: dict[MessageQueue, BoundLine] = {}
        """Lines of messages that are bound to a queue."""
        self.topic_lines: dict[str, BoundLine] = {}
        """Lines of messages without a queue, because their topic has lost its route."""
        self._max_lines = MAX_LINES
        self.accumulator: Accumulates | None = None
        """Batches messages of one queue; None if the producer's options do not allow it."""

    def started_on(self, instance: ClientInstance) -> None:
        """Use this client, the running loop and the current thread."""
        self._loop = asyncio.get_running_loop()
        self.pid = process_id()
        self._ident = get_ident()
        self.joined = instance

    @property
    def instance(self) -> ClientInstance:
        """The shared client. Raises `ClientStateError` before `start` and after `close`."""
        if self.joined is None:
            state = "closed" if self.closed else "not started: use `async with` or await start()"
            raise ClientStateError(f"producer {self.group} is {state}")
        return self.joined

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop on which `start` was called."""
        assert self._loop is not None
        return self._loop

    def topics(self) -> set[str]:
        """Return the topics sent to so far."""
        return self.routes.topics()

    def topic_missing(self, topic: str) -> None:
        """Called when the client cannot find the route of a topic sent to."""
        self.routes.missing(topic)

    def check_usable(self) -> None:
        """Raise `ClientStateError` unless the producer is started, open and used on its loop, and `ClientForked` in a
        child."""
        instance = self.instance
        if self.closed:
            raise ClientStateError(f"producer {self.group} is closing")
        if self.pid != process_id():
            instance.check_process()
        # Getting the running loop is a system call, so it is done only if there are other signs of an error.
        if self._ident != get_ident() or self.loop.is_closed():
            instance.check_loop()

    def next_id(self) -> str:
        """Return the id of the next message."""
        return self._ids.next_id()

    def hooked_frame(self, call: RpcCall, opaque: int) -> bytes:
        """Return the frame of a request, after the hooks have seen it. Raises their exceptions."""
        for hook in self.options.hooks:
            hook.before(call)
        kind = codes.BINARY_TYPE if self.options.binary_header else codes.JSON_TYPE
        return encode(make_request(call.code, opaque, call.ext, call.body, call.oneway, kind))

    def deadline(self, timeout: Any = None) -> float:
        """Return the deadline of a message sent now, by the loop's clock. `timeout` is in seconds, or None for the
        producer's timeout. Raises `ArgumentError` for other values."""
        if timeout is None:
            return self.loop.time() + self.timeout
        return self.loop.time() + check_seconds("timeout", timeout)

    def line_of(self, queue: MessageQueue) -> BoundLine:
        """Return the line of a queue."""
        line = self.lines.get(queue)
        if line is None:
            if len(self.lines) >= self._max_lines:
                used = {id(sending.line) for sending in self.in_flight}
                self.lines = {each: old for each, old in self.lines.items() if id(old) in used}
                self._max_lines = max(MAX_LINES, 2 * len(self.lines))
            line = self.lines[queue] = BoundLine(self.loop)
        return line

    def topic_line_of(self, topic: str) -> BoundLine:
        """Return the line of a topic."""
        line = self.topic_lines.get(topic)
        if line is None:
            line = self.topic_lines[topic] = BoundLine(self.loop)
        return line

    # -- places in flight

    def size_of(self, message: Any) -> int:
        """Return the size of a message's body in bytes. If it is not encoded yet, return the size of the last body."""
        body = getattr(message, "body", b"")
        return len(body) if isinstance(body, bytes) and body else self._last_size

    async def wait_for_slots(self, count: int, size: int) -> None:
        """Wait until `count` more messages may be in flight, with bodies of `size` bytes in total. If one of them
        exceeds its limit alone, wait until no message is in flight.

        Callers get their places in order. Otherwise a task that sends in a loop would always get the place of its last
        message, and other tasks would wait without end.
        """
        if not self.waiting and self._has_slots(count, size):
            return
        granted = self.loop.create_future()
        self._queue.append((count, size, granted))
        self.waiting += 1
        try:
            await granted
        finally:
            self.waiting -= 1
            if not granted.done():
                granted.cancel()
            elif not granted.cancelled():
                self._granted -= count
                self._granted_size -= size
            if self._queue:  # not now, but once this caller has used its place, or failed
                self.loop.call_soon(self._grant)

    def _has_slots(self, count: int, size: int) -> bool:
        taken = self.count + self._granted
        return not taken or (
            taken + count <= self.max_in_flight and self.size + self._granted_size + size <= self.max_bytes
        )

    def _grant(self) -> None:
        """Give free places to the callers that wait, in order."""
        queue = self._queue
        while queue:
            count, size, granted = queue[0]
            if not granted.done():  # otherwise the caller was cancelled
                if not self._has_slots(count, size):
                    return
                self._granted += count
                self._granted_size += size
                granted.set_result(None)
            queue.popleft()

    async def wait_until_idle(self) -> None:
        """Wait until no message is in flight."""
        while self.count:
            self._idle.clear()
            await self._idle.wait()

    def check_room(self) -> None:
        """Raise like `check_usable`, and `TooFast` if `max_in_flight` messages are in flight."""
        self.check_usable()
        if self.count + self._granted >= self.max_in_flight:
            raise TooFast(
                f"{self.max_in_flight} messages of producer {self.group} are in flight: wait for some of their futures,"
                " await send(), or raise max_in_flight"
            )

    def check_bytes(self, message: Any) -> None:
        """Raise `TooFast` if the message must wait because of the bytes in flight."""
        if self.count and not self._has_slots(0, self.size_of(message)):
            raise TooFast(
                f"{self.size} bytes of producer {self.group} are in flight: wait for some of their futures, await"
                " send(), or raise max_in_flight_bytes"
            )

    def entered(self, sending: object, count: int, size: int) -> None:
        """Called when a `Sending` of `count` messages with `size` bytes is sent: adds it to the messages in flight."""
        self.in_flight.add(sending)
        self.count += count
        self.size += size
        self._last_size = size

    def finished(self, sending: object, count: int, size: int) -> None:
        """Called when a `Sending` of `count` messages has its outcome: removes it from the messages in flight."""
        if sending in self.in_flight:
            self.in_flight.remove(sending)
            self.count -= count
            self.size -= size
        if self._queue or self.closed:
            self._freed()

    def all_finished(self, sendings: Collection[object], size: int) -> None:
        """Like `finished`, for single messages in flight with `size` bytes in total."""
        self.in_flight.difference_update(sendings)
        self.count -= len(sendings)
        self.size -= size
        if self._queue or self.closed:
            self._freed()

    def _freed(self) -> None:
        self._grant()
        if not self.count:
            self._idle.set()
