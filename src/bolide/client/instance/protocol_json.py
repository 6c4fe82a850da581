"""JSON bodies of brokers and name servers, whichever of RocketMQ's JSON libraries wrote them.

Java writes maps keyed by a MessageQueue with the object itself as the key: `queue_map` reads these, `queue_map_text`
writes them in the one form that 4.9.7 and 5.5.0 both read (docs/protocol/remoting.md 13).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bolide.client.messages.queue import MessageQueue
from bolide.errors import ProtocolError
from bolide.remoting.json import MAX_ANSWER, ObjectKey, parse_long


def json_body(body: bytes) -> Any:
    """The value of a body, {} when there is none. Raises `BodyError` when it is no JSON, not even Java's."""
    if not body:
        return {}
    return parse_long(body, MAX_ANSWER)


def json_text(value: Any) -> bytes:
    """JSON of plain values."""
    return msgspec.json.encode(value)


def queue_of(value: Any) -> MessageQueue:
    """A MessageQueue from its JSON object. Raises `ProtocolError`."""
    try:
        return MessageQueue(str(value["topic"]), str(value["brokerName"]), int(value["queueId"]))
    except (KeyError, ValueError, TypeError) as error:
        raise ProtocolError(f"{value!r} is no message queue") from error


def queue_json(queue: MessageQueue) -> dict[str, Any]:
    """A MessageQueue as its JSON object."""
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


def queue_map(value: Any) -> dict[MessageQueue, Any]:
    """A map keyed by MessageQueue objects, read by `json_body`."""
    found = {}
    for key, item in (value or {}).items():
        found[queue_of(key.value if isinstance(key, ObjectKey) else json_body(key.encode()))] = item
    return found


def queue_map_text(items: Mapping[MessageQueue, Any]) -> bytes:
    """A map keyed by MessageQueue objects as Java writes it: the object is the key."""
    return b"{%s}" % b",".join(json_text(queue_json(queue)) + b":" + json_text(item) for queue, item in items.items())
