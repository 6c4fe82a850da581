"""The send of one message: tries, the next broker after a failure, and the result in a future.

There is no task per message: the connection calls `Sending.done`. Only waits (for a new connection, or a route request)
become tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import Any, Final

from bolide.client.instance.deadlines import before, no_connection
from bolide.client.instance.send_frame import code_of, send_frame, send_header
from bolide.client.messages.errors import NoQueue, SendFailed, TopicNotFound, response_error, worth_retry
from bolide.client.messages.hooks import RpcCall
from bolide.client.messages.message import Message
from bolide.client.messages.namespace import without_namespace
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.send_result import STATUS_OF, SendResult, send_result
from bolide.client.messages.user_code import fit_for_futures, raise_interruption
from bolide.client.producing.line_member import LineMember
from bolide.client.producing.passing_failures import is_busy, is_passing, is_passing_rejection, no_broker
from bolide.client.producing.publish import QueueChoice, TopicQueues, bound_queue
from bolide.client.producing.send_context import AnsweredLane, SendContext
from bolide.errors import BolideError, RequestTimeout, reason
from bolide.layout.property_names import TRANSIENT_PREFIX
from bolide.remoting import codes
from bolide.remoting.command import Command
from bolide.transport.client import ClientConnection

LOOK_PATIENCE: Final = 1.0
"""Seconds that the next try waits for a new route, to find the current master."""
MAX_JOINED_PROPERTIES: Final = 8192
"""Length of the properties of a message, in characters, above which it is sent alone."""


class Sending(LineMember):
    """An accepted message without a response."""

    __slots__ = (
        "batch",
        "began",
        "body",
        "bound",
        "call",
        "choice",
        "first",
        "flag",
        "lane",
        "marked",
        "message",
        "message_id",
        "oneway",
        "pause",
        "properties",
        "sys_flag",
        "tries_left",
        "weak",
    )

    def __init__(
        self,
        producer: SendContext,
        message: Any,
        message_id: str,
        properties: str,
        body: bytes,
        sys_flag: int,
        deadline: float,
        choice: QueueChoice | None,
        batch: bool = False,
        oneway: bool = False,
    ) -> None:
        self.producer = producer
        self.message: Any = message
        """The `Message`. Its fields are read as given, because users may give values of other types."""
        self.topic = message.topic
        self.message_id = message_id
        self.properties = properties
        self.body = body
        self.flag = int(message.flag or 0)
        self.sys_flag = sys_flag
        self.deadline = deadline
        self.choice = choice
        self.batch = batch
        self.oneway = oneway
        self.count = 1
        self.size = len(message.body)
        self.first: MessageQueue | None = None
        """Queue of the first try if the caller selected it, else None. Unlike `choice`, it does not bind retries."""
        self.bound = choice is not None or bool(self.message.sharding_key)
        """Whether the message must be in this queue. Retries do not move it, because its order would be lost."""
        self.line = None
        self.tries_left = 0 if oneway or self.bound else producer.retries
        self.tries = 0
        self.pause = math.inf if oneway or not producer.retries else producer.backoff
        """Seconds before the next try once no immediate tries are left; infinite if the message is tried once."""
        self.began = 0.0
        self.queue = None
        self.weak: SendResult | None = None
        """The result of an earlier try that stored the message, but not as safely as required."""
        self.call: RpcCall | None = None
        self.marked = True
        """Whether the message is a batch, or has properties of the protocol that a batch cannot have."""
        self.lane: AnsweredLane | None = None
        """Notified of the response, to send the next messages of the queue. None if no request is in flight."""
        self.future = producer.loop.create_future()

    def start(self) -> None:
        """Send immediately if route and connection are available, otherwise as soon as they are."""
        producer = self.producer
        self.tries += 1
        self.began = now = producer.loop.time()
        try:
            instance = producer.instance
            queue = self.queue if self.bound else None
            if queue is None:
                queues = producer.routes.known(instance, self.topic)
                if self.bound and (queues is None or producer.topic_lines) and self.waits_for_route(queues is None):
                    return
                if queues is None:
                    instance.spawn(self._start_later(), f"send to {self.topic}")
                    return
                queue = self.queue = self._choose(queues)
            if self.bound:
                line = producer.lines.get(queue)
                if line is None:
                    line = producer.line_of(queue)
                if self.line is None and line.head is None and not line.waiting:
                    self.line = line  # as in `waits_in`, without a call for each message
                    line.last = self.number = line.last + 1
                    self.written = False
                    self.failure = None
                elif self.waits_in(line):
                    return
            address = instance.master_address(queue.broker_name)
            if address is None:
                raise NoQueue(f"broker {queue.broker_name} of topic {self.topic} has no master now")
            connection = instance.pool.live(address)
            if connection is None:
                if self.line is not None:
                    self.line.head = self
                instance.spawn(self._connect_and_write(address), f"send to {address}")
                return
            self._write(connection, queue, now)
        except BaseException as error:
            self.ended_by(error)

    def _choose(self, queues: TopicQueues) -> MessageQueue:
        choice = self.choice
        if choice is None:
            if self.first is not None:
                first, self.first = self.first, None
                return first
            if self.message.sharding_key:
                return queues.queue_for(self.message.sharding_key)
            producer = self.producer
            last = self.queue.broker_name if self.queue is not None else ""
            if producer.faults is None:
                return queues.next_queue(last)
            return queues.next_queue(last, producer.faults.unavailable(producer.loop.time()))
        return bound_queue(choice, queues, self.message, self.topic, self.producer.options.namespace)

    def can_join(self) -> bool:
        """Return whether the message may share a request with other messages of its queue."""
        message, properties = self.message, self.properties
        return not (
            self.marked
            or self.oneway
            or self.sys_flag
            or message.delay_level
            or message.delay
            or message.deliver_at is not None
            or message.light_queues
            or len(properties) > MAX_JOINED_PROPERTIES
            or TRANSIENT_PREFIX in properties
        )

    async def _start_later(self) -> None:
        routes = self.producer.routes
        try:
            async with asyncio.timeout_at(self.deadline):
                await routes.load(self.producer.instance, self.topic)
        except TopicNotFound as error:
            self.tries_left = 0  # every name server returns the same response
            self._failed(no_broker(self.topic, error) if routes.seen(self.topic) else error)
        except BolideError as error:
            if not routes.seen(self.topic):
                self.pause = math.inf  # report the failure of a first send without a delay: the address may be wrong
            self._failed(error)
        except TimeoutError:
            late = f"the route of topic {self.topic} was not found within the time allowed"
            asked = ", ".join(self.producer.options.namesrv)
            self._failed(RequestTimeout(late if routes.seen(self.topic) else f"{late}; is {asked} a name server?"))
        except BaseException as error:
            self.ended_by(error)
        else:
            self.tries -= 1  # a try without a route is not counted
            self.start()

    async def _look_and_start(self, failure: BolideError) -> None:
        """Look up the current master, then start the next try. Waits for a slow name server at most `LOOK_PATIENCE` and
        half of the remaining time. If no time is left, the last `failure` is the outcome."""
        try:
            left = self.deadline - self.producer.loop.time()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(LOOK_PATIENCE, left / 2)):
                    await self.producer.instance.look_again(self.topic)
        except BaseException as error:
            self.ended_by(error)
        else:
            if self.deadline <= self.producer.loop.time():  # a busy loop woke this task too late
                self.end(failure)
            else:
                self.start()

    def start_later(self, left: float, failure: BolideError) -> None:
        self.producer.instance.spawn(self._pause_and_start(left, failure), f"send to {self.topic}")

    async def _pause_and_start(self, left: float, failure: BolideError) -> None:
        """Start the next try after a pause. The last pauses are halves of the remaining time,
        so that all of it is used."""
        producer = self.producer
        pause = min(self.pause * producer.options.world.random.uniform(0.75, 1.25), left / 2)
        self.pause = min(2 * self.pause, producer.max_backoff)
        try:
            await asyncio.sleep(pause)
        except BaseException as error:
            self.ended_by(error)
        else:
            await self._look_and_start(failure)

    async def _connect_and_write(self, address: str) -> None:
        try:
            pool = self.producer.instance.pool
            connection = await before(self.deadline, pool.get(address), no_connection(address))
            assert self.queue is not None
            if self.lets_pass():
                return
            self._write(connection, self.queue, self.producer.loop.time())
            if self.line is not None and self.failure is None:
                self.line.passed(self)
        except BolideError as error:
            self._failed(error)
        except BaseException as error:
            self.ended_by(error)

    def _write(self, connection: ClientConnection, queue: MessageQueue, now: float) -> None:
        if self.deadline <= now:
            raise RequestTimeout(f"a message to {queue} was not sent within the time allowed")
        accumulator = self.producer.accumulator
        if accumulator is not None:
            accumulator.add(self, connection, queue)
        elif self.future.done():  # the caller no longer waits
            self.finish()
        else:
            self.write_alone(connection, queue, now)
            connection.flush_soon()

    def write_alone(self, connection: ClientConnection, queue: MessageQueue, now: float) -> None:
        """Queue a request with this message only; `ClientConnection.flush` or `flush_soon` writes it."""
        opaque = connection.next_opaque()
        producer = self.producer
        if producer.options.hooks or producer.options.binary_header or self.oneway:
            frame = self._general_frame(connection.address, opaque, queue)
        else:
            frame = send_frame(
                opaque,
                producer.group,
                queue,
                producer.routes.queue_count,
                self.sys_flag,
                producer.wall_ms(),
                self.flag,
                self.properties,
                self.body,
                self.batch,
            )
        if self.line is not None:
            self.write_in_line(connection)
        if self.oneway:
            connection.oneway_frame(frame)
            given: Any = queue
            place = {"queueId": str(given.queue_id)}
            self.future.set_result(send_result(0, place, self.message_id, self.shown_topic(), queue.broker_name))
            self.finish()
            return
        connection.queue_frame(opaque, frame, self.deadline - now, self.done)

    def _general_frame(self, address: str, opaque: int, queue: MessageQueue) -> bytes:
        producer = self.producer
        header = send_header(producer.group, queue, producer.routes.queue_count, self.sys_flag)
        header.born_timestamp, header.flag = producer.wall_ms(), self.flag
        header.properties, header.batch = self.properties, self.batch
        self.call = RpcCall(address, code_of(header), header.to_ext(), self.body, self.oneway)
        return producer.hooked_frame(self.call, opaque)

    def done(self, answer: Command | None, error: BolideError | None) -> None:
        """Called by the connection with the response or the error."""
        lane = self.lane
        if lane is not None:
            self.lane = None
            lane.answered()
        if answer is None:
            self._failed(error or SendFailed(f"the send to {self.queue} ended without an answer"))
            return
        try:
            self._answered(answer)
        except BaseException as failure:  # raised by a hook, or an invalid response
            self.ended_by(failure)

    def ended_by(self, error: BaseException) -> None:
        """Finish this try with an error, which may be the client's, a peer's, or from a user's hook or selector."""
        try:
            raise_interruption(error)
        except BaseException:
            self.future.cancel()
            self.finish()
            raise
        self._failed(error)

    def _answered(self, answer: Command) -> None:
        if self.call is not None:
            for hook in self.producer.options.hooks:
                hook.after(self.call, answer)
        queue = self.queue
        assert queue is not None
        if answer.code not in STATUS_OF:
            self._failed(response_error(answer.code, answer.remark, f"a message to {queue}", "the broker"))
            return
        producer = self.producer
        topic = self.shown_topic() if producer.options.namespace else self.topic
        result = send_result(answer.code, answer.ext(), self.message_id, topic, queue.broker_name)
        accumulator = producer.accumulator
        if accumulator is not None and queue.broker_name not in accumulator.added:
            accumulator.learn(queue, result)
        self.stored(answer.code, result)

    def stored(self, code: int, result: SendResult) -> None:
        """Called with the result of a stored message, and the code of the response."""
        producer = self.producer
        if producer.faults is not None:
            self._note_latency(False)
        if not self.future.done():
            if code != codes.SUCCESS and self._sends_again():
                self.weak = result
                self.start()
                return
            self.future.set_result(result)
        self.finish()

    def _sends_again(self) -> bool:
        """Return whether to send a stored message to another broker as well, because it is not as safe as required."""
        producer = self.producer
        if not producer.retry_when_not_safe or self.tries_left <= 0 or producer.loop.time() >= self.deadline:
            return False
        self.tries_left -= 1
        return True

    def shown_topic(self) -> str:
        """Return the topic without the namespace."""
        namespace = self.producer.options.namespace
        return without_namespace(namespace, self.topic) if namespace else self.topic

    def _failed(self, error: BaseException) -> None:
        """Handle the failure of a try: start the next try, or set the outcome. Only a `BolideError` is retried."""
        if not isinstance(error, BolideError) or not self._tries_again(error):
            self.end(error)

    def end(self, error: BaseException) -> None:
        """Set the outcome after the last try."""
        if self.weak is not None and not self.future.done():
            self.future.set_result(self.weak)
        if not self.future.done():
            tries = self.tries - 1
            if tries > 0 and isinstance(error, BolideError):
                failure: BaseException = SendFailed(
                    f"a message to topic {self.topic} failed {self.tries} times, the last time: {error}"
                )
                failure.__cause__ = error
            elif not fit_for_futures(error):
                failure = SendFailed(f"a message to topic {self.topic} failed: {reason(error)} from code of the user")
                failure.__cause__ = error
            else:
                failure = error
            self.future.set_exception(failure)
        if isinstance(error, BolideError) and is_passing_rejection(error):
            self.rejected()
        self.finish()

    def _tries_again(self, error: BolideError) -> bool:
        """Start the next try after a failed one, unless this was the last. Return whether another try follows."""
        producer = self.producer
        if worth_retry(error):
            self._note_latency(True)
        instance = producer.joined
        if instance is None:  # the producer is closed
            return False
        if error.refresh_route:
            producer.routes.forget(instance, self.topic)
        looks = is_busy(error) and instance.may_look(self.topic)
        left = self.deadline - producer.loop.time()
        waits = not self.future.done()
        if waits and self.tries_left > 0 and worth_retry(error) and left > 0:
            self.tries_left -= 1
            if looks:
                instance.spawn(self._look_and_start(error), f"send to {self.topic}")
            else:
                self.start()
            return True
        if waits and is_passing(error) and self.weak is None and left > producer.backoff and self.pause < math.inf:
            if not self.bound:
                self.start_later(left, error)
                return True
            if self.retried_in_line(error):
                return True
        if looks:
            instance.spawn(instance.look_again(self.topic), f"route of {self.topic}")
        return False

    def _note_latency(self, failed: bool) -> None:
        """Record the latency or failure of the last try for the choice of brokers."""
        producer = self.producer
        if producer.faults is not None and self.queue is not None:
            now = producer.loop.time()
            producer.faults.note(self.queue.broker_name, now - self.began, failed, now)


def batch_sending(
    producer: SendContext, first: Message, ids: list[str], body: bytes, deadline: float, choice: QueueChoice | None
) -> Sending:
    """Create the send of several messages in one request. `first` is one of them, `body` contains all of them."""
    given: Any = first
    envelope = Message(given.topic, body, sharding_key=given.sharding_key)
    properties = f"WAIT\x01{'true' if given.wait_stored else 'false'}\x02"
    return Sending(producer, envelope, ",".join(ids), properties, body, 0, deadline, choice, batch=True)
