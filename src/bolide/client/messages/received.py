"""A received message: a view of the stored record, which decodes each part at its first use.

`message_id` is the producer's id if the message has one, otherwise the broker's, as in Java.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from bolide.client.messages.codec import NO_VALUE, Codec, CodecError, value_of
from bolide.client.messages.errors import DamagedMessage
from bolide.client.messages.light_queues import is_lmq, light_offset
from bolide.client.messages.namespace import without_namespace
from bolide.client.messages.queue import MessageQueue
from bolide.layout import property_names as names
from bolide.layout.errors import RecordError
from bolide.layout.message_id import host_text, offset_message_id
from bolide.layout.names import RETRY_PREFIX
from bolide.layout.properties import parse_properties_bytes, property_value
from bolide.layout.record import MIN_RECORD_SIZE, Record, body_matches, decode_intact, decode_record
from bolide.layout.words import split_keys
from bolide.remoting.compression import COMPRESSED_FLAG, decompress_by_flag
from bolide.remoting.errors import CompressionError, CompressionMissing

_Value = TypeVar("_Value")

_REPAIR: Final = "check the broker's store with `bolide store verify`"

MAX_PLAIN_BODY: Final = 64 * 1024 * 1024
"""Maximum size of an inflated body, in bytes. Producers send at most 4 MiB, but brokers may allow more."""


RECORD_FIELDS: Final = (
    "total_size",
    "magic",
    "body_crc",
    "queue_id",
    "flag",
    "queue_offset",
    "physical_offset",
    "sys_flag",
    "born_timestamp",
    "born_host",
    "store_timestamp",
    "store_host",
    "reconsume_times",
    "prepared_transaction_offset",
    "body",
    "topic",
    "properties",
)
"""The attributes of a record, in the order of a pickled message."""


class ReceivedMessage:
    """One message of a queue. `topic` is the topic that it was sent to, even if it was read from a retry topic."""

    __slots__ = ("_body", "_properties", "_value", "broker_name", "codec", "reconsume_times", "record", "topic")

    def __init__(self, record: Record, broker_name: str) -> None:
        self.record = record
        self.broker_name = broker_name
        self.topic: str = record.topic
        self.reconsume_times: int = record.reconsume_times
        self._properties: dict[str, str] | None = None
        self._body: bytes | None = None
        self.codec: Codec | None = None
        self._value: Any = NO_VALUE

    @property
    def body(self) -> bytes:
        """The body as sent. Raises `CompressionError` if it cannot be inflated."""
        body = self._body
        if body is None:
            record = self.record
            body = record.body
            if record.sys_flag & COMPRESSED_FLAG:
                body = decompress_by_flag(body, record.sys_flag, MAX_PLAIN_BODY)
            self._body = body
        return body

    @property
    def value(self) -> Any:
        """The body as decoded by the consumer's codec; decoded once. Raises `CodecError` or `CompressionError`."""
        value = self._value
        if value is NO_VALUE:
            value = self._value = value_of(self.body, self.codec, self)
        return value

    def value_as(self, kind: type[_Value]) -> _Value:
        """Return the `value`, typed as `kind`. Raises like `value`, and `CodecError` if it is not a `kind`."""
        value = self.value
        if not isinstance(value, kind):
            raise CodecError(f"the value of {self!r} is {type(value).__name__}, not {kind.__name__}")
        return value

    @property
    def readable(self) -> bool:
        """Whether the body can be inflated, and decoded if the consumer has a codec.

        Also True if only a package for the compression is missing.
        """
        try:
            _ = self.body if self.codec is None else self.value
        except CompressionMissing:
            return True
        except (CodecError, CompressionError):
            return False
        return True

    @property
    def properties(self) -> dict[str, str]:
        """All properties, including the protocol's."""
        properties = self._properties
        if properties is None:
            properties = self._properties = parse_properties_bytes(self.record.properties)
        return properties

    def get_property(self, name: str) -> str | None:
        """Return one property without decoding all, or None."""
        if self._properties is not None:
            return self._properties.get(name)
        return property_value(self.record.properties, name)

    @property
    def tags(self) -> str:
        """The tag, or ""."""
        return self.get_property(names.TAGS) or ""

    @property
    def keys(self) -> list[str]:
        """The business keys."""
        return split_keys(self.get_property(names.KEYS) or "")

    @property
    def queue(self) -> MessageQueue:
        """The source queue; for a retry, a queue of the group's retry topic."""
        return MessageQueue(self.record.topic, self.broker_name, self.record.queue_id)

    @property
    def queue_id(self) -> int:
        """The queue id."""
        return self.record.queue_id

    @property
    def queue_offset(self) -> int:
        """The offset in the queue, in messages."""
        return self.record.queue_offset

    @property
    def physical_offset(self) -> int:
        """The offset in the broker's CommitLog, in bytes."""
        return self.record.physical_offset

    @property
    def message_id(self) -> str:
        """The producer's id, or the broker's if the message has no producer's id."""
        return self.get_property(names.UNIQ_KEY) or self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        """The broker's id: store host and physical offset in hexadecimal digits."""
        return offset_message_id(self.record.store_host, self.record.physical_offset)

    @property
    def born_timestamp(self) -> int:
        """Time of sending by the producer, ms since 1970."""
        return self.record.born_timestamp

    @property
    def store_timestamp(self) -> int:
        """Time of storage by the broker, ms since 1970."""
        return self.record.store_timestamp

    @property
    def born_host(self) -> str:
        """``ip:port`` of the producer."""
        return host_text(self.record.born_host)

    @property
    def store_host(self) -> str:
        """``ip:port`` of the broker."""
        return host_text(self.record.store_host)

    @property
    def flag(self) -> int:
        """The flag of the application."""
        return self.record.flag

    @property
    def sys_flag(self) -> int:
        """The flag of the protocol: compression, transaction state, kinds of addresses."""
        return self.record.sys_flag

    @property
    def sharding_key(self) -> str:
        """The key that selected the queue, or ""."""
        return self.get_property(names.SHARDING_KEY) or ""

    @property
    def transaction_id(self) -> str:
        """The id of the message's transaction, or "". As in Java, this is the producer's id of the message."""
        prepared = self.get_property(names.TRAN_MSG) or ""
        return (self.get_property(names.UNIQ_KEY) or "") if prepared.lower() == "true" else ""

    def read_from(self, topic: str) -> None:
        """Replace the record's topic, queue id and offset with its position in the light queue (LMQ) that it was read
        from."""
        offset = light_offset(topic, self.properties)
        if offset >= 0:
            self.record.topic = topic
            self.record.queue_id = 0
            self.record.queue_offset = offset

    def __copy__(self) -> ReceivedMessage:
        copied = ReceivedMessage(self.record, self.broker_name)
        copied.topic, copied.reconsume_times, copied.codec = self.topic, self.reconsume_times, self.codec
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        # A process pool pickles the message. A compiled record has no default pickle state. The value is not pickled,
        # but decoded at its next use.
        fields = [getattr(self.record, name) for name in RECORD_FIELDS]
        return _restored, (fields, self.broker_name, self.topic, self.reconsume_times, self.codec)

    def __repr__(self) -> str:
        place = f"{self.topic}@{self.broker_name}:{self.queue_id}+{self.queue_offset}"
        return f"<ReceivedMessage {place} {self.message_id}>"


def _restored(
    fields: list[Any], broker_name: str, topic: str, reconsume_times: int, codec: Codec | None
) -> ReceivedMessage:
    record = Record(bytes(MIN_RECORD_SIZE), 0, MIN_RECORD_SIZE)
    for name, value in zip(RECORD_FIELDS, fields, strict=True):
        setattr(record, name, value)
    message = ReceivedMessage(record, broker_name)
    message.topic, message.reconsume_times, message.codec = topic, reconsume_times, codec
    return message


def received_messages(body: bytes, broker_name: str) -> list[ReceivedMessage]:
    """Decode all messages of a response. Raises `DamagedMessage` if one of them does not match its CRC."""
    messages, end = intact_messages(body, broker_name)
    if end < len(body):
        raise damaged_message(body, end, _message_of(broker_name))
    return messages


def intact_messages(body: bytes, broker_name: str) -> tuple[list[ReceivedMessage], int]:
    """Return the messages before the first with a wrong CRC, and its position in `body`, or the length of `body`."""
    records, end = decode_intact(body)
    return [ReceivedMessage(record, broker_name) for record in records], end


def intact_message(body: bytes, broker_name: str) -> ReceivedMessage:
    """Decode one message. Raises `RecordError` if it is not a message,
    and `DamagedMessage` if its CRC does not match."""
    record = decode_record(body, 0)
    if not body_matches(record):
        raise damaged_message(body, 0, _message_of(broker_name))
    return ReceivedMessage(record, broker_name)


def _message_of(broker_name: str) -> str:
    return f"a message of broker {broker_name}" if broker_name else "a message"


def damaged_message(body: bytes, at: int, what: str, address: str = "") -> DamagedMessage:
    """Return the error for bytes at `at` that are not an intact message. `what` describes the message if its record is
    unreadable."""
    sender = f" from {address}" if address else ""
    try:
        record = decode_record(body, at)
    except RecordError:
        return DamagedMessage(f"{what}{sender} is damaged, its lengths do not match: {_REPAIR}")
    place = f"queue {record.topic}:{record.queue_id}, offset {record.queue_offset}, log offset {record.physical_offset}"
    return DamagedMessage(f"{what}{sender} is damaged, its body does not match its CRC ({place}): {_REPAIR}")


def show_origin(message: ReceivedMessage, namespace: str = "") -> None:
    """Set the topic of a message that was read from a retry topic to its original topic."""
    if message.topic.startswith(RETRY_PREFIX):
        origin = message.get_property(names.RETRY_TOPIC) or message.topic
        message.topic = without_namespace(namespace, origin)


def topics_of(message: ReceivedMessage) -> list[str]:
    """Return the topics whose subscribers may get the message: a light queue it was read from, its topic,
    and the light queues it lists."""
    own = [message.record.topic] if is_lmq(message.record.topic) else []
    listed = message.get_property(names.INNER_MULTI_DISPATCH)
    return [*own, message.topic, *(listed.split(",") if listed else [])]
