"""`send_many`: messages of one call are combined into batches, one request per queue.

Each message gets the same queue as if sent alone, and the messages of a queue stay in order. A message that a batch
cannot contain is sent alone, after the messages collected for its queue. If a broker rejects a batch because of its
content, its messages are resent one by one, so that only the invalid message fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from copy import copy
from functools import partial
from itertools import islice
from typing import Any, Final

from bolide.client.messages.encoding import properties_text, refused_type
from bolide.client.messages.errors import ResponseError
from bolide.client.messages.light_queues import is_lmq
from bolide.client.messages.message import Message
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.send_result import SendResult, results_of
from bolide.client.messages.user_code import raise_interruption
from bolide.client.producing.accumulator import MOST, MOST_BYTES, REFUSED
from bolide.client.producing.message_sender import MessageSender
from bolide.client.producing.publish import QueueChoice, TopicQueues, bound_queue
from bolide.client.producing.send_outcome import outcome_of, show_outcomes
from bolide.client.producing.sending import Sending, batch_sending
from bolide.client.tracing.interceptor import SendCall, refuse_sends
from bolide.errors import BolideError, PeerError
from bolide.layout.names import DLQ_PREFIX, RETRY_PREFIX
from bolide.remoting.batch import ELEMENT_FIXED, BatchMessage, encode_batch

CHUNK: Final = 1024
"""Maximum number of messages taken from the caller before the first of them is sent."""


class ListedMessage:
    """One message of a call, with its index `place` among the outcomes."""

    __slots__ = ("bound", "call", "element", "message", "message_id", "place", "queue")

    def __init__(self, place: int, message: Message, call: SendCall | None) -> None:
        self.place = place
        self.message: Any = message
        """The `Message`. Its fields are read as given, because users may give values of other types."""
        self.call = call
        self.queue: MessageQueue | None = None
        """The queue of the message, or None if its topic has no route."""
        self.bound = False
        """Whether the message is bound to this queue."""
        self.element: BatchMessage | None = None
        """The message as a part of a batch, or None if a batch cannot contain it."""
        self.message_id = ""


class Part:
    """Messages of one queue for one request."""

    __slots__ = ("bound", "entries", "queue", "size")

    def __init__(self, queue: MessageQueue, bound: bool) -> None:
        self.queue = queue
        self.bound = bound
        """Whether its messages are bound to this queue."""
        self.entries: list[ListedMessage] = []
        self.size = 0

    def add(self, entry: ListedMessage, size: int) -> None:
        """Add a message that takes `size` bytes in a batch."""
        self.entries.append(entry)
        self.size += size


class ManySends:
    """One call of `send_many`: collected messages by queue, sends in flight, and the outcomes so far."""

    def __init__(self, producer: MessageSender, choice: QueueChoice | None) -> None:
        self._producer = producer
        self._instance = producer.instance
        self._choice = choice
        self._outcomes: list[SendResult | BaseException | None] = []
        self._open = 0
        self._parts: dict[MessageQueue, Part] = {}
        self._sendings: set[Sending] = set()
        self._looked = 0.0
        """Seconds of the time of the next messages that the search for their routes has taken."""
        self._begun: dict[int, SendCall] = {}
        """Calls of interceptors for messages that are not in a request yet, by index."""
        self._given_up = False
        """Whether the caller no longer waits."""
        self._all_there = asyncio.Event()
        self._most_bytes = min(MOST_BYTES, producer.max_body, producer.max_bytes)

    async def send(self, messages: Iterable[Message]) -> list[SendResult | BaseException]:
        """Send the messages and return one outcome for each."""
        given = iter(messages)
        size = min(CHUNK, self._producer.max_in_flight)
        try:
            while True:
                chunk = list(islice(given, size))
                await self._send_chunk(chunk)
                if len(chunk) < size:
                    break
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
        entries = self._accept(chunk)
        instance, routes = self._producer.instance, self._producer.routes
        known = {entry.message.topic: routes.known(instance, entry.message.topic) for entry in entries}
        await self._send_entries([entry for entry in entries if known[entry.message.topic] is not None], known)
        others = [entry for entry in entries if known[entry.message.topic] is None]
        if others:
            began = self._producer.loop.time()
            await self._find_routes(known)
            self._looked = self._producer.loop.time() - began
            await self._send_entries(others, known)
            self._looked = 0.0

    async def _send_entries(self, entries: list[ListedMessage], routes: dict[str, TopicQueues | None]) -> None:
        at = 0
        while at < len(entries):
            at = self._gather(entries, at, routes)
            if at < len(entries):
                await self._place(entries[at])
                at += 1
        while self._parts:
            await self._send_part(next(iter(self._parts)))
        await asyncio.sleep(0)  # let the loop send the written requests before more are made

    def _accept(self, chunk: list[Message]) -> list[ListedMessage]:
        """Return the valid messages, prepared to be sent. Sets the outcomes of the other messages."""
        producer = self._producer
        first = len(self._outcomes)
        self._outcomes += [None] * len(chunk)
        self._open += len(chunk)
        entries: list[ListedMessage] = []
        for place, message in enumerate(chunk, first):
            try:
                sent, call = producer.ready(message)
            except BaseException as error:
                raise_interruption(error)
                self._ended(place, error)
                continue
            entries.append(ListedMessage(place, sent, call))
            if call is not None:
                self._begun[place] = call
        return entries

    async def _find_routes(self, found: dict[str, TopicQueues | None]) -> None:
        """Add the missing queues of topics. For topics without a route, a send alone reports the error."""
        try:
            async with asyncio.timeout(self._producer.timeout):
                for topic in sorted(topic for topic, queues in found.items() if queues is None):
                    try:
                        found[topic] = await self._producer.routes.load(self._producer.instance, topic)
                    except BolideError:
                        continue
        except TimeoutError:
            return

    # -- gathering

    def _gather(self, entries: list[ListedMessage], at: int, routes: dict[str, TopicQueues | None]) -> int:
        """Collect the messages from index `at` by queue. Return the index of the first message for `_place`, which may
        wait, or the number of messages."""
        producer = self._producer
        while at < len(entries):
            entry = entries[at]
            message = entry.message
            try:
                queues = routes.get(message.topic)
                if queues is None or not queues.queues:
                    return at
                queue, entry.bound = self._pick(message, queues)
                entry.queue = queue
                if not self._fits_batches(message):
                    return at
                entry.message_id = message_id = producer.next_id()
                properties = properties_text(message, message_id).encode()
                entry.element = element = BatchMessage(int(message.flag or 0), message.body, properties)
                size = ELEMENT_FIXED + len(element.body) + len(element.properties)
                part = self._parts.get(queue)
                if part is None:
                    part = self._parts[queue] = Part(queue, entry.bound)
                elif not self._has_room(part, entry, size):
                    return at
                part.add(entry, size)
            except BaseException as error:
                raise_interruption(error)
                self._refused([entry], error)
            at += 1
        return at

    async def _place(self, entry: ListedMessage) -> None:
        """Send a message alone, or send the messages of its queue so that it is the first of the next request."""
        try:
            queue, element = entry.queue, entry.element
            if queue is None or element is None:
                await self._send_alone(entry)
                return
            await self._send_part(queue)
            part = self._parts[queue] = Part(queue, entry.bound)
            part.add(entry, ELEMENT_FIXED + len(element.body) + len(element.properties))
        except BaseException as error:
            raise_interruption(error)
            self._refused([entry], error)

    def _has_room(self, part: Part, entry: ListedMessage, size: int) -> bool:
        return (
            len(part.entries) < MOST
            and part.size + size <= self._most_bytes
            and part.bound == entry.bound
            and part.entries[0].message.wait_stored == entry.message.wait_stored
        )

    def _pick(self, message: Any, queues: TopicQueues) -> tuple[MessageQueue, bool]:
        """Select the queue of a message. Return it, and whether the message is bound to it."""
        producer = self._producer
        if self._choice is not None:
            namespace = producer.options.namespace
            return bound_queue(self._choice, queues, message, message.topic, namespace), True
        if message.sharding_key:
            if not isinstance(message.sharding_key, str):
                raise refused_type(message)
            return queues.queue_for(message.sharding_key), True
        if producer.faults is None:
            return queues.next_queue(), False
        return queues.next_queue("", producer.faults.unavailable(producer.loop.time())), False

    def _fits_batches(self, message: Any) -> bool:
        return not (
            message.delayed
            or message.light_queues
            or len(message.body) >= self._producer.compress_above
            or message.topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
            or is_lmq(message.topic)
        )

    # -- sending

    async def _send_alone(self, entry: ListedMessage) -> None:
        queue = entry.queue
        if queue is not None and queue in self._parts:
            await self._send_part(queue)
        await self._producer.wait_for_slots(1, len(entry.message.body))
        self._producer.check_usable()
        sending = self._producer.sending_of(entry.message, queue if entry.bound else self._choice)
        sending.first = queue
        sending.deadline -= self._looked
        entry.message_id = sending.message_id
        self._go(sending, [entry])

    async def _send_part(self, queue: MessageQueue) -> None:
        """Send the messages collected for a queue. An error becomes their outcome and is not raised."""
        part = self._parts.pop(queue)
        entries = part.entries
        try:
            await self._producer.wait_for_slots(len(entries), part.size)
            sending = self._sending_of(part)
        except BaseException as error:
            raise_interruption(error)
            self._refused(entries, error)
            return
        sending.first = queue
        sending.deadline -= self._looked
        self._go(sending, entries)

    def _sending_of(self, part: Part) -> Sending:
        producer, entries = self._producer, part.entries
        choice = part.queue if part.bound else None
        producer.check_usable()
        first = entries[0]
        if len(entries) == 1:
            sending = producer.sending_of(first.message, choice)
            first.message_id = sending.message_id
            return sending
        body = encode_batch([entry.element for entry in entries if entry.element is not None])
        ids = [entry.message_id for entry in entries]
        sending = batch_sending(producer, first.message, ids, body, producer.deadline(), choice)
        sending.count = len(ids)
        return sending

    def _go(self, sending: Sending, entries: list[ListedMessage]) -> None:
        self._sendings.add(sending)
        if self._begun:
            for entry in entries:
                self._begun.pop(entry.place, None)
        sending.future.add_done_callback(partial(self._answered, sending, entries))
        self._producer.go(sending)

    # -- outcomes

    def _answered(self, sending: Sending, entries: list[ListedMessage], future: asyncio.Future[SendResult]) -> None:
        self._sendings.discard(sending)
        outcome = outcome_of(future)
        outcomes: list[SendResult | BaseException]
        ids = [entry.message_id for entry in entries]
        if isinstance(outcome, SendResult):
            outcomes = self._results(outcome, ids) if sending.batch else [outcome]
        elif self._goes_alone(sending, outcome):
            self._one_by_one(sending, entries, outcome)
            return
        else:
            outcomes = [outcome] * len(entries)
        calls = [entry.call for entry in entries if entry.call is not None]
        if calls:
            producer = self._producer
            show_outcomes(calls, ids, outcomes, sending, self._instance, producer.interceptors)
        for number, entry in enumerate(entries):
            self._ended(entry.place, outcomes[number])

    def _results(self, result: SendResult, ids: list[str]) -> list[SendResult | BaseException]:
        try:
            return [*results_of(result, ids)]
        except PeerError as error:
            return [copy(error) for _ in ids]

    def _goes_alone(self, sending: Sending, error: BaseException) -> bool:
        """Return whether the messages of a failed batch may succeed alone."""
        refused = isinstance(error, ResponseError) and error.code in REFUSED
        return refused and sending.batch and not self._given_up

    def _one_by_one(self, batch: Sending, entries: list[ListedMessage], refusal: BaseException) -> None:
        """Resend the messages of a rejected batch one by one. The broker has stored none of them."""
        producer = self._producer
        for entry in entries:
            try:
                producer.check_usable()
                sending = producer.sending_of(entry.message, batch.choice)
            except BaseException as error:
                raise_interruption(error)
                refuse_sends([] if entry.call is None else [entry.call], refusal, producer.interceptors)
                self._ended(entry.place, refusal)
                continue
            sending.first = batch.queue
            entry.message_id = sending.message_id
            self._go(sending, [entry])

    def _refused(self, entries: list[ListedMessage], error: BaseException) -> None:
        """Fail messages that could not be put into a request."""
        calls = [self._begun.pop(entry.place) for entry in entries if entry.place in self._begun]
        refuse_sends(calls, error, self._producer.interceptors)
        for entry in entries:
            self._ended(entry.place, error)

    def _ended(self, place: int, outcome: SendResult | BaseException) -> None:
        self._outcomes[place] = outcome
        self._open -= 1
        if not self._open:
            self._all_there.set()
