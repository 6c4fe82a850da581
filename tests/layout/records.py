"""Messages and records made by hand, for tests of every room."""

from __future__ import annotations

from typing import Any

from librt.strings import BytesWriter

from bolide.layout.broker_message import BrokerMessage
from bolide.layout.hashes import tags_code
from bolide.layout.message_id import encode_host
from bolide.layout.message_properties import stored_properties
from bolide.layout.record import Record, encode_record

HOST = encode_host("127.0.0.1", 10911)


def message_of(
    topic: str, body: bytes = b"body", properties: bytes = b"", queue_id: int = 0, **fields: Any
) -> BrokerMessage:
    """A message as the door hands it to the store; `fields` are further attributes of it."""
    found = stored_properties(properties)
    found.scan()
    message = BrokerMessage(topic, topic.encode(), queue_id, body, found, fields.pop("born_timestamp", 1), HOST)
    message.store_host = HOST
    message.encoded_properties = properties
    message.tags_code = tags_code(found.tags) if found.tags else 0
    for name, value in fields.items():
        assert hasattr(message, name), name
        setattr(message, name, value)
    return message


def put_record(w: BytesWriter, topic: str, body: bytes = b"body", properties: bytes = b"", **fields: Any) -> int:
    """Append a record to `w`; `fields` may name its places, its time and attributes of its message."""
    places = {name: fields.pop(name, 0) for name in ("queue_offset", "physical_offset")}
    time = fields.pop("store_timestamp", 1)
    return encode_record(w, message_of(topic, body, properties, **fields), store_timestamp=time, **places)


def record_bytes(topic: str, body: bytes = b"body", properties: bytes = b"", **fields: Any) -> bytes:
    """The bytes of a record."""
    w = BytesWriter()
    put_record(w, topic, body, properties, **fields)
    return w.getvalue()


def record_of(topic: str, body: bytes = b"body", properties: bytes = b"", **fields: Any) -> Record:
    """A record made by hand."""
    data = record_bytes(topic, body, properties, **fields)
    return Record(data, 0, len(data))


FIELDS: dict[str, Any] = {
    "queue_id": 1,
    "flag": 2,
    "queue_offset": 3,
    "physical_offset": 4,
    "sys_flag": 0,
    "born_timestamp": 5,
    "born_host": bytes(8),
    "store_timestamp": 6,
    "store_host": bytes(8),
    "reconsume_times": 0,
    "prepared_transaction_offset": 0,
    "body": b"body",
    "topic": b"topic",
    "properties": b"a\x01b\x02",
}
