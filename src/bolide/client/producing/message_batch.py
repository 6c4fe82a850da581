"""Several messages of one topic as the body of one request, with the checks of RocketMQ's MessageBatch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bolide.client.messages.arguments import check_topic
from bolide.client.messages.errors import MessageRefused
from bolide.client.messages.message import Message, check_body, properties_text
from bolide.layout.names import RETRY_PREFIX
from bolide.remoting.batch import BatchMessage, encode_batch


def pack_batch(messages: Sequence[Message], max_body: int, next_id: Callable[[], str]) -> tuple[list[str], bytes]:
    """The ids given to the messages, and the body. Raises `MessageRefused` for messages that cannot go together."""
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
        parts.append(BatchMessage(message.flag, message.body, properties_text(message, ids[-1]).encode()))
    body = encode_batch(parts)
    if len(body) > max_body:
        raise MessageRefused(f"the batch has {len(body)} bytes, {max_body} are allowed, make it smaller", "messages")
    return ids, body
