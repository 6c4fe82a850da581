"""A message about to be sent, with the checks of RocketMQ's producer (Validators, MessageDecoder, MessageConst).

Properties travel as one text, ``name 0x01 value 0x02`` repeated, of at most 32,767 bytes; names the protocol uses
itself are refused in `Message.properties` and have arguments of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import UNSET

from bolide.client.messages.delayed import delay_property
from bolide.client.messages.errors import MessageRefused
from bolide.client.messages.light_queues import queue_list
from bolide.layout.limits import (
    DEFAULT_MAX_MESSAGE_SIZE,
    MAX_LONG_TOPIC_LENGTH,
    MAX_PROPERTIES_LENGTH,
    MAX_TOPIC_LENGTH,
)
from bolide.layout.names import DLQ_PREFIX, RETRY_PREFIX
from bolide.layout.property_names import RESERVED

MAX_DELAY_LEVEL: Final = 18

_TOPIC: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_known_topics: set[str] = set()


@dataclass(slots=True)
class Message:
    """One message: a topic and a body, and what brokers and consumers select by.

    `keys` are indexed for search, one or several; `delay_level` 1 to 18 delivers later (1 s to 2 h); messages with
    the same `sharding_key` go to the same queue; `wait_stored` False lets the broker answer before the flush. A
    producer with a codec takes a `value` in place of the body. `light_queues` are names of light queues (LMQ) it also
    enters. `delay` (seconds or a timedelta) or `deliver_at` (seconds since the epoch, or a datetime) deliver at any
    time the broker allows: three days ahead.
    """

    topic: str
    body: bytes = b""
    tags: str = ""
    keys: str | Iterable[str] = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    delay_level: int = 0
    sharding_key: str = ""
    flag: int = 0
    wait_stored: bool = True
    value: Any = UNSET
    light_queues: Iterable[str] = ()
    delay: float | timedelta = 0
    deliver_at: float | datetime | None = None

    @property
    def delayed(self) -> bool:
        """True when it is to be delivered later, in whichever way that is said."""
        return bool(self.delay_level or self.delay or self.deliver_at is not None)

    @property
    def keys_text(self) -> str:
        """The keys as they travel: separated by one blank."""
        return self.keys if isinstance(self.keys, str) else " ".join(self.keys)


def check_topic(topic: str) -> None:
    """Raise `MessageRefused` unless `topic` is a legal topic name."""
    if topic in _known_topics:
        return
    if not _TOPIC.fullmatch(topic):
        raise MessageRefused(f"topic {topic!r} is illegal, only letters, digits and %|-_ are allowed")
    if len(topic) > (MAX_LONG_TOPIC_LENGTH if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) else MAX_TOPIC_LENGTH):
        raise MessageRefused(f"topic {topic!r} is longer than {MAX_TOPIC_LENGTH} characters")
    if len(_known_topics) < 100_000:  # a bound on memory, not on topics
        _known_topics.add(topic)


def check_body(message: Message, max_body: int = DEFAULT_MAX_MESSAGE_SIZE) -> None:
    """Raise `MessageRefused` unless the body is bytes, not empty, and of at most `max_body` bytes."""
    body = message.body
    if not isinstance(body, bytes):
        raise MessageRefused(f"the body for topic {message.topic} is {type(body).__name__}, give bytes")
    if not body:
        raise MessageRefused(f"the body for topic {message.topic} is empty, RocketMQ stores no empty messages")
    if len(body) > max_body:
        raise MessageRefused(f"the body for topic {message.topic} has {len(body)} bytes, {max_body} are allowed")


def properties_text(message: Message, unique_id: str) -> str:
    """The properties of a message as they travel. Raises `MessageRefused` for a name or value that cannot."""
    parts = [f"UNIQ_KEY\x01{unique_id}\x02WAIT\x01{'true' if message.wait_stored else 'false'}\x02"]
    if message.tags:
        parts.append(f"TAGS\x01{message.tags}\x02")
    keys = message.keys
    if keys:
        parts.append(f"KEYS\x01{keys if isinstance(keys, str) else ' '.join(keys)}\x02")
    if message.delay_level:
        if not 0 < message.delay_level <= MAX_DELAY_LEVEL:
            raise MessageRefused(f"delay level {message.delay_level} does not exist, choose 1 to {MAX_DELAY_LEVEL}")
        parts.append(f"DELAY\x01{message.delay_level}\x02")
    if message.sharding_key:
        parts.append(f"__SHARDINGKEY\x01{message.sharding_key}\x02")
    if message.light_queues:
        parts.append(f"INNER_MULTI_DISPATCH\x01{queue_list(message.light_queues)}\x02")
    if message.delay or message.deliver_at is not None:
        if message.delay_level:
            raise MessageRefused("a message takes a delay level, a delay or a time of delivery, give one of them")
        parts.append(delay_property(message.delay, message.deliver_at))
    count = 2 * (len(parts) + 1)  # the first part holds two pairs
    for name, value in message.properties.items():
        if name in RESERVED or not name or not value:
            raise MessageRefused(
                f"property {name!r} is reserved by RocketMQ"
                if name in RESERVED
                else f"property {name!r} is empty and would be lost, leave it out"
            )
        parts.append(f"{name}\x01{value}\x02")
        count += 2
    text = "".join(parts)
    if text.count("\x01") + text.count("\x02") != count:
        raise MessageRefused("tags, keys and properties may not hold the characters 0x01 and 0x02, they separate them")
    if len(text) > MAX_PROPERTIES_LENGTH // 3 and len(text.encode()) > MAX_PROPERTIES_LENGTH:
        raise MessageRefused(f"the properties have more than {MAX_PROPERTIES_LENGTH} bytes, move data into the body")
    return text
