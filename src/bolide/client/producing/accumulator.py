"""Accumulator: sends messages for one queue together if they arrive while a request to it is in flight.

RocketMQ's client calls this autoBatch (ProduceAccumulator), and waits for more messages. Here a message never waits
while no request to its queue is in flight: it is sent at the end of the event loop's turn, as without an accumulator.
Only the request is shared. Each message is still one `Sending`, with its own tries, deadline and result.

A broker stores the messages of a batch like single messages. The client adds the properties that the broker adds to
single messages, which it copies from the first response. A message that a batch cannot contain is sent alone, but does
not overtake the messages that wait for its queue.

A program that waits for each result before the next send has at most one message in the accumulator. Such a message
gets a lane only when another message follows before its response.
"""

from __future__ import annotations

import asyncio
from copy import copy
from typing import Any, Final

from bolide.client.instance.send_frame import code_of, send_frame, send_header
from bolide.client.messages.hooks import RpcCall
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.send_result import STATUS_OF, SendResult, results_of, send_result
from bolide.client.producing.lane import Lane, end_each, joinable
from bolide.client.producing.send_context import Accumulates, SendContext
from bolide.client.producing.sending import Sending
from bolide.errors import BolideError, RequestTimeout
from bolide.layout.property_names import CLUSTER, MSG_REGION, TRACE_ON
from bolide.remoting import codes
from bolide.remoting.batch import BatchMessage, encode_batch
from bolide.remoting.command import Command
from bolide.transport.client import ClientConnection

MOST: Final = 256
"""Maximum number of messages per batch."""
MOST_BYTES: Final = 256 * 1024
REFUSED: Final = frozenset({codes.MESSAGE_ILLEGAL, codes.REQUEST_CODE_NOT_SUPPORTED})
"""Codes that mean that no message of a batch was stored, and that its messages may succeed alone."""
MAX_WAIT: Final = 0.01
"""Maximum time in seconds that a message waits for the response to an earlier request. So a broker that responds late,
as it does while a replica is slow, still gets all messages early enough. A message waits longer for a batch that has
bound messages."""
ALONE: Final = 60.0
"""Seconds that messages of a queue are sent one by one after the broker rejected a batch of them."""
MAX_LANES: Final = 10_000


class SharedRequest:
    """A request in flight with several messages of a lane."""

    __slots__ = ("accumulator", "bound", "call", "lane", "last", "ordered", "sendings", "size")

    def __init__(
        self, accumulator: Accumulator, lane: Lane, sendings: list[Sending], call: RpcCall | None = None
    ) -> None:
        self.accumulator = accumulator
        self.call = call
        self.lane = lane
        self.sendings = sendings
        self.bound = 0
        """Number of messages in the line of the queue."""
        self.last = 0
        """Number in the line of the last of these messages."""
        self.ordered = 0
        """1 if a message is bound to the queue, otherwise 0."""
        self.size = 0
        for sending in sendings:
            self.size += sending.size
            if sending.bound:
                self.ordered = 1

    def done(self, answer: Command | None, error: BolideError | None) -> None:
        """Called by the connection with the response or the error."""
        lane = self.lane
        lane.batches -= 1
        lane.ordered -= self.ordered
        lane.answered()
        self._answered(answer, error)

    def _answered(self, answer: Command | None, error: BolideError | None) -> None:
        """Set the result or error of each message."""
        lane, sendings, context = self.lane, self.sendings, self.accumulator.context
        if answer is not None and self.call is not None:
            for hook in context.options.hooks:
                hook.after(self.call, answer)
        if answer is None:
            end_each(sendings, lambda sending: sending.done(None, copy(error)))
        elif answer.code in STATUS_OF:
            try:
                results = self._results(answer)
            except BaseException as invalid:
                failure = invalid
                end_each(sendings, lambda sending: sending.ended_by(copy(failure)))
                return
            if answer.code != codes.SUCCESS or context.faults is not None:
                pairs = iter(results)
                end_each(sendings, lambda sending: sending.stored(answer.code, next(pairs)))
                return
            if self.bound:
                self._leave_line()
            for number, sending in enumerate(sendings):
                if not sending.future.done():
                    sending.future.set_result(results[number])
            context.all_finished(sendings, self.size)
        elif answer.code in REFUSED:
            now = context.loop.time()
            lane.alone_until = now + ALONE
            for sending in sendings:
                sending.rejected()
                if sending.future.done():
                    sending.finish()
                else:
                    self.accumulator.send_alone(lane, sending, now)
            lane.connection.flush()
        else:
            end_each(sendings, lambda sending: sending.done(answer, None))

    def _leave_line(self) -> None:
        """Like `leave_line` of each message, which a broker has stored."""
        line = self.lane.line
        assert line is not None
        if line.head is not None or line.waiting:
            for sending in self.sendings:
                sending.leave_line()
            return
        line.open -= self.bound
        if self.last > line.stored:
            line.stored = self.last

    def _results(self, answer: Command) -> list[SendResult]:
        queue, sendings = self.lane.queue, self.sendings
        first = sendings[0]
        result = send_result(answer.code, answer.ext(), "", first.shown_topic(), queue.broker_name)
        self.accumulator.learn(queue, result)
        results = results_of(result, [sending.message_id for sending in sendings])
        for each in results:
            each.transaction_id = each.message_id  # as in the response to a single message
        return results


class Accumulator(Accumulates):
    """The lanes of one producer. `max_body` is the producer's limit of a body in bytes, also for a batch."""

    def __init__(self, context: SendContext, max_body: int) -> None:
        super().__init__()
        self.context = context
        self._most_bytes = min(MOST_BYTES, max_body)
        self._lone: Sending | None = None
        """The only message that is unsent or in flight. It has no lane."""
        self._lone_connection: ClientConnection | None = None
        self._lone_sent = False
        self._lanes: dict[MessageQueue, Lane] = {}
        self._due: list[Lane] = []
        self._held: list[Lane] = []
        """Lanes whose messages wait for a response."""
        self._timer: asyncio.TimerHandle | None = None
        self._scheduled = False

    def add(self, sending: Any, connection: ClientConnection, queue: MessageQueue) -> None:
        """Send a message at the end of this turn, or together with others after the response to an earlier request."""
        if self._lone is None and not self.in_flight and not self._due:
            self._lone, self._lone_connection, self._lone_sent = sending, connection, False
            if not self._scheduled:
                self._scheduled = True
                self.context.loop.call_soon(self._turn)
            return
        if self._lone is not None:
            self._move_lone()
        lane = self._lanes.get(queue)
        if lane is None or lane.connection is not connection:
            lane = self._open(queue, connection)
        lane.waiting.append(sending)
        if sending.line is not None:
            lane.line = sending.line
        if not lane.due:  # as in `schedule`, without a call for each message
            lane.due = True
            self._due.append(lane)
            if not self._scheduled:
                self._scheduled = True
                self.context.loop.call_soon(self._turn)

    # -- one message at a time

    def _send_lone(self, sending: Sending, connection: ClientConnection) -> None:
        """Send a message that is the only one of this turn, while no request is in flight."""
        queue = sending.queue
        assert queue is not None
        if sending.future.done():
            self.answered()
            sending.finish()
            return
        self._lone_sent = True
        sending.lane = self
        try:
            sending.write_alone(connection, queue, sending.began)
        except BaseException as error:
            sending.lane = None
            self.answered()
            sending.ended_by(error)
        else:
            if sending.oneway:
                sending.lane = None
                self.answered()
        finally:
            connection.flush()

    def answered(self) -> None:
        """Called when the request of the message without a lane has a response, or failed."""
        self._lone = self._lone_connection = None

    def _move_lone(self) -> None:
        """Put the message without a lane into the lane of its queue, because another message follows it."""
        sending, connection = self._lone, self._lone_connection
        assert sending is not None
        assert connection is not None
        assert sending.queue is not None
        self._lone = self._lone_connection = None
        lane = self._lanes.get(sending.queue)
        if lane is None or lane.connection is not connection:
            lane = self._open(sending.queue, connection)
        if sending.line is not None:
            lane.line = sending.line
        if self._lone_sent:
            lane.in_flight += 1
            self.in_flight += 1
            sending.lane = lane
        else:
            lane.waiting.append(sending)
            self.schedule(lane)

    # -- when to send

    def _open(self, queue: MessageQueue, connection: ClientConnection) -> Lane:
        lanes = self._lanes
        if len(lanes) >= MAX_LANES:
            for idle in [each for each, lane in lanes.items() if not lane.waiting and not lane.in_flight]:
                del lanes[idle]
        old = lanes.get(queue)
        lane = lanes[queue] = Lane(queue, connection, self)
        if old is not None:  # its connection is closed, and its requests have failed
            lane.waiting, old.waiting = old.waiting, lane.waiting
            lane.line = old.line
        return lane

    def schedule(self, lane: Any) -> None:
        """Process a lane when this turn of the loop ends."""
        if not lane.due:
            lane.due = True
            self._due.append(lane)
            if not self._scheduled:
                self._scheduled = True
                self.context.loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Send the messages of this turn, unless a request for the same queue is in flight."""
        self._scheduled = False
        lone = self._lone
        if lone is not None and not self._lone_sent and self._lone_connection is not None:
            self._send_lone(lone, self._lone_connection)
        if not self._due:
            return
        due, self._due = self._due, []
        now = self.context.loop.time()
        try:
            for lane in due:
                lane.due = False
                lane.hold_back()
                waiting = lane.waiting
                if not waiting:
                    continue
                if lane.in_flight and (lane.batches or self._added_by(lane, now) is not None):
                    if not lane.ordered:
                        self._send_singles(lane, now)
                    if waiting:
                        self._hold(lane)
                elif len(waiting) == 1 and not waiting[0].future.done() and waiting[0].deadline > now:  # the usual case
                    self.send_alone(lane, waiting.pop(), now)
                else:
                    self._send(lane, now)
        finally:  # also after an interruption, so that no message stays unsent
            for lane in due:
                if lane.due:
                    lane.due = False
                    self.schedule(lane)
                lane.connection.flush()

    def _hold(self, lane: Lane) -> None:
        self._held.append(lane)
        if self._timer is None:
            self._timer = self.context.loop.call_later(MAX_WAIT, self._waited)

    def _waited(self) -> None:
        """Send messages that have waited for a response for too long."""
        self._timer = None
        held, self._held = self._held, []
        now = self.context.loop.time()
        for lane in dict.fromkeys(held):
            lane.hold_back()
            if not lane.waiting:
                continue
            if lane.waiting[0].began > now - MAX_WAIT or lane.ordered:
                self._drop_ended(lane, now, len(lane.waiting))
                self._hold(lane)
            else:
                self._send(lane, now, late=True)
                lane.connection.flush()

    def _drop_ended(self, lane: Lane, now: float, most: int) -> int:
        """Remove messages that have timed out, or whose callers no longer wait, from the first `most` messages. Return
        the number of remaining messages among them."""
        waiting = lane.waiting[:most]
        left = [sending for sending in waiting if sending.deadline > now and not sending.future.done()]
        if len(left) == len(waiting):
            return len(left)
        lane.waiting[:most] = left
        for sending in waiting:
            if sending.future.done():
                sending.finish()
            elif sending.deadline <= now:
                late = f"a message to {lane.queue} was not sent within the time allowed"
                sending.done(None, RequestTimeout(late))
        return len(left)

    # -- requests

    def _send(self, lane: Lane, now: float, late: bool = False) -> None:
        """Send the waiting messages of a lane up to the first batch. If they are late, send them up to the first batch
        that must not be overtaken."""
        added = self._added_by(lane, now)
        stops = False
        while lane.waiting and not stops:
            count = self._drop_ended(lane, now, MOST)
            part, sent = lane.waiting[:count], 0
            try:
                while sent < len(part) and not stops:
                    first = part[sent]
                    count = joinable(part[sent:], self._most_bytes) if added is not None and first.can_join() else 1
                    sent += count
                    if added is None or count == 1:
                        self.send_alone(lane, first, now)
                    else:
                        self._send_together(lane, part[sent - count : sent], added, now)
                        stops = not late or lane.ordered > 0
            finally:
                del lane.waiting[:sent]
        if lane.waiting:
            self._hold(lane)

    def _send_singles(self, lane: Lane, now: float) -> None:
        """Send the first messages of a lane that a batch cannot contain: they gain nothing by waiting."""
        count = 0
        for sending in lane.waiting:
            if sending.can_join():
                break
            count += 1
        count = self._drop_ended(lane, now, count)
        sendings = lane.waiting[:count]
        del lane.waiting[:count]
        for sending in sendings:
            self.send_alone(lane, sending, now)

    def _added_by(self, lane: Lane, now: float) -> bytes | None:
        """Return the properties that the broker adds to a single message, or None if messages are sent alone."""
        return self.added.get(lane.queue.broker_name) if lane.joins and lane.alone_until <= now else None

    def send_alone(self, lane: Lane, sending: Sending, now: float) -> None:
        sending.began = now
        try:
            sending.write_alone(lane.connection, lane.queue, now)
        except BaseException as error:
            sending.ended_by(error)
            return
        if not sending.oneway:
            lane.in_flight += 1
            self.in_flight += 1
            sending.lane = lane

    def _send_together(self, lane: Lane, sendings: list[Sending], added: bytes, now: float) -> None:
        context, connection = self.context, lane.connection
        try:
            elements = [
                BatchMessage(sending.flag, sending.body, sending.properties.encode() + added) for sending in sendings
            ]
            opaque = connection.next_opaque()
            wait = "WAIT\x01true\x02" if sendings[0].message.wait_stored else "WAIT\x01false\x02"
            group, queue_count, born = context.group, context.routes.queue_count, context.wall_ms()
            body = encode_batch(elements)
            call: RpcCall | None = None
            if context.options.hooks or context.options.binary_header:
                header = send_header(group, lane.queue, queue_count)
                header.born_timestamp, header.properties, header.batch = born, wait, True
                call = RpcCall(connection.address, code_of(header), header.to_ext(), body, False)
                frame = context.hooked_frame(call, opaque)
            else:
                frame = send_frame(opaque, group, lane.queue, queue_count, 0, born, 0, wait, body, True)
        except BaseException as error:
            failure = error
            if isinstance(error, Exception):  # one of them cannot be encoded, and fails alone
                end_each(sendings, lambda sending: self.send_alone(lane, sending, now))
            else:
                end_each(sendings, lambda sending: sending.ended_by(copy(failure)))
            return
        lane.in_flight += 1
        self.in_flight += 1
        lane.batches += 1
        request = SharedRequest(self, lane, sendings, call)
        lane.ordered += request.ordered
        if context.faults is not None:
            for sending in sendings:
                sending.began = now
        deadline = now
        line = None if connection.closed else lane.line
        for sending in sendings:
            if sending.deadline > deadline:
                deadline = sending.deadline
            if line is not None and sending.line is line:  # as in `write_in_line`, without a call for each message
                sending.written = True
                request.bound += 1
                request.last = sending.number
        if line is not None:
            line.open += request.bound
        connection.queue_frame(opaque, frame, deadline - now, request.done)

    # -- responses

    def learn(self, queue: MessageQueue, result: SendResult) -> None:
        """Store the properties that the broker of a queue adds to a single message, from the result of a send."""
        instance = self.context.joined
        if instance is None:  # the producer is closed
            return
        known = self.context.routes.known(instance, queue.topic)
        cluster = known.route.clusters.get(queue.broker_name, "") if known is not None else ""
        text = f"{MSG_REGION}\x01{result.region_id}\x02{TRACE_ON}\x01{'true' if result.trace_on else 'false'}\x02"
        self.added[queue.broker_name] = (text + (f"{CLUSTER}\x01{cluster}\x02" if cluster else "")).encode()
