"""MessageSender: checks and encodes a user's message, adds an id and properties, and sends it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from bolide.client.instance.options import ClientOptions
from bolide.client.messages.arguments import check_topic, shown
from bolide.client.messages.codec import NO_VALUE, with_body
from bolide.client.messages.encoding import check_body, properties_text
from bolide.client.messages.errors import MessageRefused
from bolide.client.messages.hooks import of_requests
from bolide.client.messages.message import Message
from bolide.client.messages.namespace import with_namespace
from bolide.client.producing.accumulator import Accumulator
from bolide.client.producing.publish import PublishRoutes, QueueChoice
from bolide.client.producing.send_context import SendContext, SendSettings
from bolide.client.producing.send_outcome import end_send
from bolide.client.producing.sending import Sending, batch_sending
from bolide.client.tracing.interceptor import SendCall, begin_send, refuse_sends
from bolide.errors import caused
from bolide.layout.names import RETRY_PREFIX
from bolide.remoting.batch import BatchMessage, encode_batch
from bolide.remoting.compression import COMPRESSED_FLAG, TYPE_SHIFT, compress


class MessageSender(SendContext):
    """Accepts the messages of one producer."""

    def __init__(self, group: str, options: ClientOptions, routes: PublishRoutes, settings: SendSettings) -> None:
        super().__init__(group, options, routes, settings)
        self.codec = settings.codec
        self.interceptors = settings.interceptors
        self.compress_above = settings.compress_above
        self.max_body = settings.max_body
        self._compression = settings.compression
        self._checked_topic = ""
        """The last valid topic, which is not checked again."""
        if settings.auto_batch and of_requests(options.hooks):
            self.accumulator = Accumulator(self, settings.max_body)

    def accept(
        self,
        message: Message,
        queue: QueueChoice | None,
        timeout: Any,
        oneway: bool = False,
        marks: str = "",
        sys_flag: int = 0,
    ) -> Sending:
        """Send a message. `timeout` is in seconds, or None for the producer's timeout.

        `marks` are encoded properties of the protocol that users cannot set. Raises `MessageRefused`, `TooFast` and
        `ClientStateError`.
        """
        self.check_room()
        message, call = self.ready(message, oneway)
        calls = [] if call is None else [call]
        try:
            sending = self.sending_of(message, queue, timeout, oneway, marks, sys_flag)
        except BaseException as error:
            refused = _refusal(error, [message])
            refuse_sends(calls, refused, self.interceptors)
            raise caused(refused, refused.__cause__) from refused.__cause__
        return self._go(sending, calls)

    def ready(self, message: Message, oneway: bool = False) -> tuple[Message, SendCall | None]:
        """Prepare a message: encode its body, add the namespace, call the interceptors, and check it.

        Raises `MessageRefused`, and the exception of an interceptor that rejects it.
        """
        call: SendCall | None = None
        try:
            given: Any = message
            if given.value is not NO_VALUE:
                message = with_body(message, self.codec)
            if self.interceptors:
                call = begin_send(self.group, message, self.interceptors, oneway, self.options.world)
                message = call.message
            message = given = self._in_namespace(message)
            topic = given.topic
            if type(topic) is not str or topic != self._checked_topic:
                check_topic(topic)
                self._checked_topic = topic
            check_body(message, self.max_body)
        except BaseException as error:
            refused = _refusal(error, [message])
            refuse_sends([] if call is None else [call], refused, self.interceptors)
            raise caused(refused, refused.__cause__) from refused.__cause__
        return message, call

    def sending_of(
        self,
        message: Message,
        queue: QueueChoice | None,
        timeout: Any = None,
        oneway: bool = False,
        marks: str = "",
        sys_flag: int = 0,
    ) -> Sending:
        """Create the send of a message that is `ready`, with its id, properties and compression.
        Raises `MessageRefused`."""
        message_id = self.next_id()
        properties = properties_text(message, message_id)
        if marks:
            properties += marks
        body = message.body
        if len(body) >= self.compress_above:
            body = compress(body, self._compression)
            sys_flag |= COMPRESSED_FLAG | self._compression << TYPE_SHIFT
        sending = Sending(
            self, message, message_id, properties, body, sys_flag, self.deadline(timeout), queue, oneway=oneway
        )
        sending.marked = bool(marks)
        return sending

    def accept_batch(self, messages: list[Message], queue: QueueChoice | None, timeout: Any) -> Sending:
        """Send several messages of one topic with one request. Raises like `accept`."""
        self.check_room()
        calls: list[SendCall] = []
        try:
            messages = [with_body(message, self.codec) for message in messages]
            if self.interceptors:
                for message in messages:
                    calls.append(begin_send(self.group, message, self.interceptors, world=self.options.world))
                messages = [call.message for call in calls]
            messages = [self._in_namespace(message) for message in messages]
            ids, body = pack_batch(messages, self.max_body, self.next_id)
            deadline = self.deadline(timeout)
        except BaseException as error:
            refused = _refusal(error, messages)
            refuse_sends(calls, refused, self.interceptors)
            raise caused(refused, refused.__cause__) from refused.__cause__
        first = messages[0]
        return self._go(batch_sending(self, first, ids, body, deadline, queue), calls)

    def _in_namespace(self, message: Message) -> Message:
        namespace = self.options.namespace
        return replace(message, topic=with_namespace(namespace, message.topic)) if namespace else message

    def go(self, sending: Sending) -> None:
        """Add a message to the messages in flight, and send it."""
        self.entered(sending, sending.count, sending.size)
        sending.start()

    def _go(self, sending: Sending, calls: list[SendCall]) -> Sending:
        if calls:
            end_send(calls, sending, self.interceptors)
        self.go(sending)
        return sending


def _refusal(error: BaseException, messages: Iterable[object]) -> BaseException:
    """Return `error`, or a `MessageRefused` if one of the messages is not a `Message`."""
    for message in messages:
        if not isinstance(message, Message):
            return MessageRefused(f"the message is {shown(message)}, give a Message", "message")
    return error


def pack_batch(messages: Sequence[Any], max_body: int, next_id: Callable[[], str]) -> tuple[list[str], bytes]:
    """Return the ids of the messages and the body of the batch, after the checks of RocketMQ's MessageBatch.

    Each message is a `Message`. Raises `MessageRefused` for messages that cannot be in one batch.
    """
    if not messages:
        raise MessageRefused("a batch needs at least one message", "messages")
    first = messages[0]
    ids = []
    parts = []
    for message in messages:
        check_topic(message.topic)
        check_body(message, max_body)
        if message.topic != first.topic or message.wait_stored != first.wait_stored:
            raise MessageRefused(
                "all messages of a batch have one topic and one wait_stored, make several batches", "messages"
            )
        if message.delayed or message.topic.startswith(RETRY_PREFIX):
            raise MessageRefused(
                "a batch takes neither delays nor retry topics, send such messages one by one", "messages"
            )
        ids.append(next_id())
        properties = properties_text(message, ids[-1]).encode()
        parts.append(BatchMessage(int(message.flag or 0), message.body, properties))
    body = encode_batch(parts)
    if len(body) > max_body:
        raise MessageRefused(f"the batch has {len(body)} bytes, {max_body} are allowed, make it smaller", "messages")
    return ids, body
