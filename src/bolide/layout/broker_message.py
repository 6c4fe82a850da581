"""A message between its request and its record: RocketMQ's MessageExtBrokerInner.

Every writer of the broker creates one, `LogWriter` completes it, and the commit log encodes it. It lacks only the
fields assigned during the append: queue offset, physical offset, store timestamp, body CRC.
"""

from __future__ import annotations

from typing import final

from bolide.layout.limits import MAX_TOPIC_LENGTH
from bolide.layout.message_id import HOST_V4_SIZE
from bolide.layout.message_properties import MessageProperties
from bolide.layout.names import RETRY_PREFIX
from bolide.layout.sysflag import BORN_HOST_V6, STORE_HOST_V6


@final
class BrokerMessage:
    """One message. Hosts are 4 or 16 address bytes and an int32 port; timestamps are ms since the epoch."""

    def __init__(
        self,
        topic: str,
        topic_bytes: bytes,
        queue_id: int,
        body: bytes,
        properties: MessageProperties,
        born_timestamp: int,
        born_host: bytes,
    ) -> None:
        self.topic: str = topic
        self.topic_bytes: bytes = topic_bytes
        self.queue_id: int = queue_id
        self.body: bytes = body
        self.properties: MessageProperties = properties
        self.born_timestamp: int = born_timestamp
        self.born_host: bytes = born_host
        self.flag: int = 0
        self.sys_flag: int = 0
        self.reconsume_times: int = 0
        self.prepared_transaction_offset: int = 0
        self.delays: bool = True
        """Whether a delay in the properties applies now. If not, it has expired or applies later."""
        self.waits_until: int = 0
        """Timer slot (ms) of the message, or 0 if it has no timer. Set by `LogWriter`."""
        self.store_host: bytes = b""
        """Set by `LogWriter`."""
        self.encoded_properties: bytes = b""
        """The stored form of the properties, or b"" until `LogWriter` encodes them."""
        self.tags_code: int = 0
        """Hash of the tags, for the queue unit. In the schedule topic, the store writes the delivery time instead."""
        self.delay_level: int = 0
        """> 0 only for the schedule topic. The store, which sets the store timestamp, computes the delivery time."""
        self.light_queues: list[str] | None = None
        """Light queues (LMQ) that the message enters in addition to its own queue. The properties list them, and the
        store adds the queue offsets."""

    def mark_hosts(self) -> None:
        """Set the two bits of the sys flag that describe the lengths of the hosts.

        Readers use these bits, so they must match the stored hosts, not the client's flag.
        """
        sys_flag = self.sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6)
        if len(self.born_host) > HOST_V4_SIZE:
            sys_flag |= BORN_HOST_V6
        if len(self.store_host) > HOST_V4_SIZE:
            sys_flag |= STORE_HOST_V6
        self.sys_flag = sys_flag

    def move_to(self, topic: str, topic_bytes: bytes, queue_id: int) -> None:
        """Change the topic and queue of the message."""
        self.topic = topic
        self.topic_bytes = topic_bytes
        self.queue_id = queue_id


def topic_fits(topic: str, size: int) -> bool:
    """Return whether a record can contain a topic of this size in bytes. A long %RETRY% topic needs version 2."""
    return 0 < size <= MAX_TOPIC_LENGTH or (size > 0 and topic.startswith(RETRY_PREFIX))
