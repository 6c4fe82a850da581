"""Request-reply: a message to which its consumer replies, and the reply (RocketMQ's request API).

The request is an ordinary message with a correlation id and the client id of its sender. The reply is sent to the
broker of the request, which pushes it to the client with that id (PUSH_REPLY_MESSAGE_TO_CLIENT).
"""

from __future__ import annotations

import asyncio
import logging

from bolide.client.instance.routed_client import RoutedClient
from bolide.client.instance.send_frame import send_header
from bolide.client.messages.errors import MessageRefused
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.received import ReceivedMessage
from bolide.errors import ConnectionLost, PeerError
from bolide.layout import property_names as names
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.errors import RecordError
from bolide.layout.message_id import encode_host
from bolide.layout.message_properties import MessageProperties
from bolide.layout.names import REPLY_TOPIC_SUFFIX
from bolide.layout.properties import format_properties
from bolide.layout.record import record_of
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.headers.reply import ReplyMessageRequestHeader

log = logging.getLogger("bolide.client")

REPLY = "reply"
"""Value of MSG_TYPE that marks a reply."""


class Replies:
    """Pending requests of one client, by correlation id."""

    def __init__(self) -> None:
        self.waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}

    def arrived(self, command: Command) -> Command:
        """Process a reply that a broker pushes; late and unknown replies are dropped."""
        try:
            message = received_reply(command)
        except (PeerError, RecordError) as error:
            log.warning("a pushed reply cannot be read: %s", error)
            return make_response(command, codes.SYSTEM_ERROR, "process reply message fail")
        future = self.waiting.get(message.get_property(names.CORRELATION_ID) or "")
        if future is None:
            log.warning("discarding a late or unknown reply: %r", message)
        elif not future.done():
            future.set_result(message)
        return make_response(command, codes.SUCCESS)


def received_reply(command: Command) -> ReceivedMessage:
    """Decode the message in a pushed reply. Raises `HeaderError`, `MessageIdError`, `RecordError`."""
    header = decode_header(command, ReplyMessageRequestHeader)
    properties = MessageProperties(header.properties or "")
    message = BrokerMessage(
        header.topic,
        header.topic.encode(),
        header.queue_id,
        command.body,
        properties,
        header.born_timestamp,
        _host(header.born_host),
    )
    message.flag = header.flag
    message.sys_flag = header.sys_flag
    message.reconsume_times = header.reconsume_times or 0
    message.store_host = _host(header.store_host)
    message.mark_hosts()
    message.encoded_properties = properties.text.encode()
    return ReceivedMessage(record_of(message, header.store_timestamp), "")


def _host(text: str) -> bytes:
    """Parse Java's `ip:port`, which some releases precede with a slash."""
    ip, _, port = text.lstrip("/").rpartition(":")
    return encode_host(ip.strip("[]"), int(port)) if ip and port.isdecimal() else encode_host("0.0.0.0", 0)


async def send_reply(
    client: RoutedClient, group: str, request: ReceivedMessage, body: bytes, now: int, timeout: float | None = None
) -> None:
    """Reply to a request. Raises `MessageRefused` for other messages,
    and `ResponseError` if the requester disconnected."""
    asker = request.get_property(names.REPLY_TO_CLIENT)
    cluster = request.get_property(names.CLUSTER)
    if asker is None or cluster is None:
        raise MessageRefused(f"{request!r} is not a request: only a message of request() has a reply", "request")
    properties = {
        names.MSG_TYPE: REPLY,
        names.CORRELATION_ID: request.get_property(names.CORRELATION_ID) or "",
        names.REPLY_TO_CLIENT: asker,
        names.TTL: request.get_property(names.TTL) or "",
        names.WAIT: "true",
    }
    address = client.master_address(request.broker_name)
    if address is None:
        raise ConnectionLost(f"broker {request.broker_name} has no master now: the reply cannot be sent to {asker}")
    queue = MessageQueue(cluster + REPLY_TOPIC_SUFFIX, request.broker_name, 0)
    header = send_header(group, queue, 1)
    header.born_timestamp, header.properties = now, format_properties(properties)
    await client.call(address, codes.SEND_REPLY_MESSAGE_V2, header.to_ext(), body, timeout=timeout)
