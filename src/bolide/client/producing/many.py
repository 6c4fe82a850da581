"""`send_many`: messages of one call are combined into batches, one request per queue.

Each message gets the same queue as if sent alone, and the messages of a queue stay in order. A message that a batch
cannot contain is sent alone, after the messages collected for its queue. If a broker rejects a batch because of its
content, its messages are resent one by one, so that only the invalid message fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Final

from bolide.client.messages.errors import ResponseError
from bolide.client.messages.light_queues import is_lmq
from bolide.client.messages.message import Message, properties_text
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.send_result import SendResult, results_of
from bolide.client.messages.user_code import raise_interruption
from bolide.client.producing.accumulator import MOST, MOST_BYTES, REFUSED
from bolide.client.producing.message_sender import MessageSender
from bolide.client.producing.publish import QueueChoice, TopicQueues
from bolide.client.producing.send_outcome import outcome_of, show_outcomes
from bolide.client.producing.sending import Sending, batch_sending, bound_queue
from bolide.client.tracing.interceptor import SendCall, refuse_sends
from bolide.errors import BolideError
from bolide.layout.names import DLQ_PREFIX, RETRY_PREFIX
from bolide.remoting.batch import ELEMENT_FIXED, BatchMessage, encode_batch

CHUNK: Final = 1024
"""Maximum number of messages taken from the caller before the first of them is sent."""


class Part:
    """Messages of one queue for one request, with the index of each among the outcomes."""

    __slots__ = ("bound", "calls", "elements", "ids", "messages", "places", "queue", "size")

    def __init__(self, queue: MessageQueue, bound: bool) -> None:
        self.queue = queue
        self.bound = bound
        """Whether its messages are bound to this queue."""
        self.places: list[int] = []
        self.messages: list[Message] = []
        self.calls: list[SendCall] = []
        self.ids: list[str] = []
        self.elements: list[BatchMessage] = []
        self.size = 0

    def add(self, place: int, message: Message, message_id: str, element: BatchMessage, call: SendCall | None) -> None:
        """Add a message."""
        self.places.append(place)
        self.messages.append(message)
        self.ids.append(message_id)
        self.elements.append(element)
        self.size += ELEMENT_FIXED + len(element.body) + len(element.properties)
        if call is not None:
            self.calls.append(call)


class ManySends:
    """One call of `send_many`: collected messages by queue, sends in flight, and the outcomes so far."""

    def __init__(self, producer: MessageSender, choice: QueueChoice | None) -> None:
        self._producer = producer
        self._choice = choice
        self._outcomes: list[SendResult | BaseException | None] = []
        self._open = 0
        self._parts: dict[MessageQueue, Part] = {}
        self._sendings: set[Sending] = set()
        self._begun: dict[int, SendCall] = {}
        """Calls of interceptors for messages that are not in a request yet, by index."""
        self._given_up = False
        """Whether the caller no longer waits."""
        self._all_there = asyncio.Event()
        self._most_bytes = min(MOST_BYTES, producer.max_body)

    async def send(self, messages: Iterable[Message]) -> list[SendResult | BaseException]:
        """Send the messages and return one outcome for each."""
        chunk: list[Message] = []
        size = min(CHUNK, self._producer.max_in_flight)
        try:
            for message in messages:
                chunk.append(message)
                if len(chunk) == size:
                    await self._send_chunk(chunk)
                    chunk = []
            await self._send_chunk(chunk)
            while self._open:
                self._all_there.clear()
                await self._all_there.wait()
        except BaseException as error:  # cancelled, or raised by the caller's iterator
            self._given_up = True
            for sending in list(self._sendings):
                sending.future.cancel()
            refuse_sends(list(self._begun.values()), error, self._producer.interceptors)
            raise
        return [outcome for outcome in self._outcomes if outcome is not None]

    async def _send_chunk(self, chunk: list[Message]) -> None:
        producer = self._producer
        first = len(self._outcomes)
        self._outcomes += [None] * len(chunk)
        self._open += len(chunk)
        accepted: list[tuple[int, Message, SendCall | None]] = []
        for place, message in enumerate(chunk, first):
            try:
                sent, call = producer.ready(message)
            except BaseException as error:
                raise_interruption(error)
                self._ended(place, error)
                continue
            accepted.append((place, sent, call))
            if call is not None:
                self._begun[place] = call
        routes = await self._routes({message.topic for _, message, _ in accepted})
        for place, message, call in accepted:
            try:
                queues = routes.get(message.topic)
                if queues is None or not queues.queues:
                    await self._send_alone(place, message, call, None, False)
                    continue
                queue, bound = self._pick(message, queues)
                if not self._fits_batches(message):
                    await self._send_alone(place, message, call, queue, bound)
                    continue
                message_id = producer.next_id()
                element = BatchMessage(message.flag, message.body, properties_text(message, message_id).encode())
                part = self._parts.get(queue)
                if part is not None and not self._has_room(part, message, element, bound):
                    await self._send_part(queue)
                    part = None
                if part is None:
                    part = self._parts[queue] = Part(queue, bound)
                part.add(place, message, message_id, element, call)
            except BaseException as error:
                raise_interruption(error)
                self._refused([place], error)
        while self._parts:
            await self._send_part(next(iter(self._parts)))
        await asyncio.sleep(0)  # let the written requests leave before more are made

    async def _routes(self, topics: set[str]) -> dict[str, TopicQueues]:
        """Return the queues of the topics that have a route. For other topics, a send alone reports the error."""
        found: dict[str, TopicQueues] = {}
        for topic in sorted(topics):
            known = self._producer.routes.known(self._producer.instance, topic)
            if known is None:
                try:
                    known = await self._producer.routes.load(self._producer.instance, topic)
                except BolideError:
                    continue
            found[topic] = known
        return found

    # -- gathering

    def _has_room(self, part: Part, message: Message, element: BatchMessage, bound: bool) -> bool:
        size = ELEMENT_FIXED + len(element.body) + len(element.properties)
        return (
            len(part.ids) < MOST
            and part.size + size <= self._most_bytes
            and part.bound == bound
            and part.messages[0].wait_stored == message.wait_stored
        )

    def _pick(self, message: Message, queues: TopicQueues) -> tuple[MessageQueue, bool]:
        """Select the queue of a message. Return it, and whether the message is bound to it."""
        producer = self._producer
        if self._choice is not None:
            namespace = producer.options.namespace
            return bound_queue(self._choice, queues, message, message.topic, namespace), True
        if message.sharding_key:
            return queues.queue_for(message.sharding_key), True
        if producer.faults is None:
            return queues.next_queue(), False
        return queues.next_queue("", producer.faults.unavailable(producer.loop.time())), False

    def _fits_batches(self, message: Message) -> bool:
        return not (
            message.delayed
            or message.light_queues
            or len(message.body) >= self._producer.compress_above
            or message.topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
            or is_lmq(message.topic)
        )

    # -- sending

    async def _send_alone(
        self, place: int, message: Message, call: SendCall | None, queue: MessageQueue | None, bound: bool
    ) -> None:
        if queue is not None and queue in self._parts:
            await self._send_part(queue)
        await self._producer.wait_for_slots(1)
        self._producer.check_usable()
        sending = self._producer.sending_of(message, queue if bound else self._choice)
        sending.first = queue
        self._go(sending, [place], [sending.message_id], [] if call is None else [call], [message])

    async def _send_part(self, queue: MessageQueue) -> None:
        """Send the messages collected for a queue. An error becomes their outcome and is not raised."""
        part = self._parts.pop(queue)
        producer = self._producer
        choice = queue if part.bound else None
        try:
            await producer.wait_for_slots(len(part.ids))
            producer.check_usable()
            if len(part.ids) == 1:
                sending = producer.sending_of(part.messages[0], choice)
                part.ids[0] = sending.message_id
            else:
                body = encode_batch(part.elements)
                sending = batch_sending(producer, part.messages[0], part.ids, body, producer.deadline(), choice)
                sending.count = len(part.ids)
        except BaseException as error:
            raise_interruption(error)
            self._refused(part.places, error)
            return
        sending.first = queue
        self._go(sending, part.places, part.ids, part.calls, part.messages)

    def _go(
        self, sending: Sending, places: list[int], ids: list[str], calls: list[SendCall], messages: list[Message]
    ) -> None:
        self._sendings.add(sending)
        if calls:
            for place in places:
                self._begun.pop(place, None)
        sending.future.add_done_callback(partial(self._answered, sending, places, ids, calls, messages))
        self._producer.go(sending)

    # -- outcomes

    def _answered(
        self,
        sending: Sending,
        places: list[int],
        ids: list[str],
        calls: list[SendCall],
        messages: list[Message],
        future: asyncio.Future[SendResult],
    ) -> None:
        self._sendings.discard(sending)
        outcome = outcome_of(future)
        outcomes: list[SendResult | BaseException]
        if isinstance(outcome, SendResult):
            outcomes = list(results_of(outcome, ids)) if sending.batch else [outcome]
        elif self._goes_alone(sending, outcome):
            self._one_by_one(sending, places, calls, messages, outcome)
            return
        else:
            outcomes = [outcome] * len(places)
        if calls:
            producer = self._producer
            show_outcomes(calls, ids, outcomes, sending, producer.instance, producer.interceptors)
        for place, outcome in zip(places, outcomes, strict=True):
            self._ended(place, outcome)

    def _goes_alone(self, sending: Sending, error: BaseException) -> bool:
        """Return whether the messages of a failed batch may succeed alone."""
        refused = isinstance(error, ResponseError) and error.code in REFUSED
        return refused and sending.batch and not self._given_up

    def _one_by_one(
        self,
        batch: Sending,
        places: list[int],
        calls: list[SendCall],
        messages: list[Message],
        refusal: BaseException,
    ) -> None:
        """Resend the messages of a rejected batch one by one. The broker has stored none of them."""
        producer = self._producer
        for number, message in enumerate(messages):
            call = calls[number : number + 1]
            try:
                producer.check_usable()
                sending = producer.sending_of(message, batch.choice)
            except BaseException as error:
                raise_interruption(error)
                refuse_sends(call, refusal, producer.interceptors)
                self._ended(places[number], refusal)
                continue
            sending.first = batch.queue
            self._go(sending, [places[number]], [sending.message_id], call, [message])

    def _refused(self, places: list[int], error: BaseException) -> None:
        """Fail messages that could not be put into a request."""
        calls = [self._begun.pop(place) for place in places if place in self._begun]
        refuse_sends(calls, error, self._producer.interceptors)
        for place in places:
            self._ended(place, error)

    def _ended(self, place: int, outcome: SendResult | BaseException) -> None:
        self._outcomes[place] = outcome
        self._open -= 1
        if not self._open:
            self._all_there.set()
