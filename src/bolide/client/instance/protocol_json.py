"""JSON bodies of brokers and name servers, written by any of RocketMQ's JSON libraries.

Java writes maps keyed by a MessageQueue with the object itself as the key. `queue_map` reads such maps, and
`queue_map_text` writes them in the one form that 4.9.7 and 5.5.0 both read (docs/protocol/remoting.md 13).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bolide.client.messages.queue import MessageQueue
from bolide.errors import ProtocolError
from bolide.remoting.json import MAX_ANSWER, ObjectKey, parse_long


def json_body(body: bytes) -> Any:
    """Return the value of a body, or {} for an empty body. Raises `BodyError` if it is neither valid JSON nor Java's
    form of JSON."""
    if not body:
        return {}
    return parse_long(body, MAX_ANSWER)


def json_text(value: Any) -> bytes:
    """Encode built-in types as JSON."""
    return msgspec.json.encode(value)


def queue_of(value: Any) -> MessageQueue:
    """Return a MessageQueue from its JSON object. Raises `ProtocolError`."""
    try:
        return MessageQueue(str(value["topic"]), str(value["brokerName"]), int(value["queueId"]))
    except (KeyError, ValueError, TypeError) as error:
        raise ProtocolError(f"{value!r} is not a message queue") from error


def queue_json(queue: MessageQueue) -> dict[str, Any]:
    """Return the JSON object of a MessageQueue."""
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


def queue_map(value: Any) -> dict[MessageQueue, Any]:
    """Return a map keyed by MessageQueue objects from the result of `json_body`."""
    found = {}
    for key, item in (value or {}).items():
        found[queue_of(key.value if isinstance(key, ObjectKey) else json_body(key.encode()))] = item
    return found


def queue_map_text(items: Mapping[MessageQueue, Any]) -> bytes:
    """Encode a map keyed by MessageQueue objects like Java: the object is the key."""
    return b"{%s}" % b",".join(json_text(queue_json(queue)) + b":" + json_text(item) for queue, item in items.items())
