"""Checks of the contents of a message to send, as in RocketMQ's producer (Validators, MessageDecoder, MessageConst).

Properties are sent as one text, ``name 0x01 value 0x02`` repeated, of at most 32,767 bytes. Names that the protocol
uses are rejected in `Message.properties`; `Message` has separate arguments for them.

Fields are read as `Any`, because users may give values of any type. Otherwise compiled code would raise a `TypeError`
for a value that does not have the type of its field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from bolide.client.messages.arguments import plain_number, shown
from bolide.client.messages.delayed import delay_property
from bolide.client.messages.errors import MessageRefused
from bolide.client.messages.light_queues import queue_list
from bolide.client.messages.message import Message
from bolide.errors import caused
from bolide.layout.limits import (
    DEFAULT_MAX_MESSAGE_SIZE,
    MAX_PROPERTIES_LENGTH,
)
from bolide.layout.property_names import RESERVED
from bolide.layout.words import KEY_SEPARATOR, tag_fault

MAX_DELAY_LEVEL: Final = 18

MAX_FLAG: Final = 2**31


def check_body(message: Message, max_body: int = DEFAULT_MAX_MESSAGE_SIZE) -> None:
    """Raise `MessageRefused` unless the body is bytes, not empty, and of at most `max_body` bytes."""
    given: Any = message
    body: object = given.body
    if not isinstance(body, bytes):
        fault = f"the body for topic {given.topic} is {type(body).__name__}, give bytes"
    elif not body:
        fault = f"the body for topic {given.topic} is empty, RocketMQ stores no empty messages"
    elif len(body) > max_body:
        fault = f"the body for topic {given.topic} has {len(body)} bytes, {max_body} are allowed"
    else:
        return
    raise MessageRefused(fault, "body")


def properties_text(message: Any, unique_id: str) -> str:
    """Return the encoded properties of a message. Raises `MessageRefused` for invalid names or values."""
    stored = message.wait_stored
    if stored is not True and stored is not False:
        raise _wrong(message, "wait_stored", stored, "give True or False")
    parts: list[str] = ["UNIQ_KEY\x01", unique_id, "\x02WAIT\x01true\x02" if stored else "\x02WAIT\x01false\x02"]
    count = 4  # separators, if names and values contain no such character
    try:
        if message.tags:
            fault = tag_fault(message.tags)
            if fault:
                raise MessageRefused(f"tag {shown(message.tags)} {fault}", "tags")
            parts += ("TAGS\x01", message.tags, "\x02")
            count += 2
        keys = message.keys
        if keys:
            parts += ("KEYS\x01", keys if isinstance(keys, str) else _joined(keys), "\x02")
            count += 2
        if message.delay_level:
            check_delay_level(message.delay_level)
            parts.append(f"DELAY\x01{message.delay_level}\x02")
            count += 2
        if message.sharding_key:
            parts += ("__SHARDINGKEY\x01", message.sharding_key, "\x02")
            count += 2
        if message.light_queues:
            parts += ("INNER_MULTI_DISPATCH\x01", queue_list(message.light_queues), "\x02")
            count += 2
        if message.delay or message.deliver_at is not None:
            if message.delay_level:
                raise MessageRefused(
                    "a message takes a delay level, a delay or a time of delivery, give one of them", "delay_level"
                )
            parts.append(delay_property(message.delay, message.deliver_at))
            count += 2
        if message.flag:
            flag = plain_number(message.flag)
            if not isinstance(flag, int) or not -MAX_FLAG <= flag < MAX_FLAG:
                raise _wrong(message, "flag", message.flag, f"give a whole number from -{MAX_FLAG} to {MAX_FLAG - 1}")
        properties = message.properties
        if type(properties) is not dict or properties:
            for name, value in properties.items():
                if name in RESERVED or not name or not value:
                    raise MessageRefused(
                        f"property {name!r} is reserved by RocketMQ"
                        if name in RESERVED
                        else f"property {name!r} is empty and would be lost, leave it out",
                        "properties",
                    )
                parts += (name, "\x01", value, "\x02")
                count += 2
        text = "".join(parts)
    except (TypeError, AttributeError):  # from `join`: unlike formatting, it never turns a value into its repr
        raise caused(refused_type(message), None) from None
    if text.count("\x01") + text.count("\x02") != count:
        raise MessageRefused(
            "tags, keys and properties may not hold the characters 0x01 and 0x02, they separate them", "properties"
        )
    if len(text) > MAX_PROPERTIES_LENGTH or not text.isascii():
        _check_encoded(text)
    return text


def _check_encoded(text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        fault = f"tags, keys or properties contain {text[error.start]!r}, half of a surrogate pair, give Unicode text"
        raise caused(MessageRefused(fault, "properties"), None) from None
    if size > MAX_PROPERTIES_LENGTH:
        raise MessageRefused(
            f"the properties have more than {MAX_PROPERTIES_LENGTH} bytes, move data into the body", "properties"
        )


def _joined(keys: Any) -> str:
    """Return the keys as sent. Raises `MessageRefused` for a key that would be split into several."""
    listed: list[Any] = list(keys)
    for key in listed:
        if KEY_SEPARATOR in key:
            raise MessageRefused(
                f"key {shown(key)} contains a space, which separates keys: use another character", "keys"
            )
    return KEY_SEPARATOR.join(listed)


def check_delay_level(level: Any) -> None:
    """Raise `MessageRefused` for a delay level that does not exist."""
    number = plain_number(level)
    if not isinstance(number, int) or not 0 < number <= MAX_DELAY_LEVEL:
        raise MessageRefused(f"delay level {level!r} does not exist, choose 1 to {MAX_DELAY_LEVEL}", "delay_level")


def refused_type(message: Any) -> MessageRefused:
    """Return the error for a message whose tags, keys, sharding key or properties are not text."""
    texts: list[tuple[str, object]] = [("tags", message.tags), ("sharding_key", message.sharding_key)]
    for argument, text in texts:
        if text and not isinstance(text, str):
            return _wrong(message, argument, text, "give a str")
    keys: object = message.keys
    if keys and not isinstance(keys, str) and not _all_text(keys):
        return _wrong(message, "keys", keys, "give a str, or several in a list")
    listed: object = message.light_queues
    if listed and not isinstance(listed, str) and not _all_text(listed):
        return _wrong(message, "light_queues", listed, "give a str, or several in a list")
    properties: object = message.properties
    if not isinstance(properties, Mapping):
        return _wrong(message, "properties", properties, "give a dict of str to str")
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            return _wrong(message, f"properties[{name!r}]", value, "names and values are str")
    return MessageRefused(f"the properties of a message to {message.topic} cannot be read", "properties")


def _all_text(values: object) -> bool:
    return isinstance(values, Iterable) and all(isinstance(value, str) for value in values)


def _wrong(message: Any, argument: str, value: object, allowed: str) -> MessageRefused:
    fault = f"{argument} of a message to {message.topic} is {shown(value)}, {allowed}"
    return MessageRefused(fault, argument.partition("[")[0])
