"""Attributes of topics and groups (5.x): the known keys, their valid values, and changes by requests.

RocketMQ's AttributeParser, AttributeUtil, TopicAttributes and SubscriptionGroupAttributes: a change is `+key=value` to
set or `-key` to remove. Additional keys of Bolide, unknown to Java brokers, name the plug-ins of a topic
(docs/plugins.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from bolide.broker.core.names import printable
from bolide.broker.refused import Refused
from bolide.remoting.codes import SYSTEM_ERROR

MESSAGE_TYPE: Final = "message.type"
MIXED: Final = "MIXED"
DISPATCHERS: Final = "bolide.dispatchers"
HOOKS: Final = "bolide.hooks"
LONG_MAX: Final = (1 << 63) - 1


class Attribute(NamedTuple):
    """`refusal` returns why a value is invalid, or None. An attribute that is not changeable can be set only at
    creation."""

    changeable: bool
    refusal: Callable[[str], str | None]


def one_of(*values: str) -> Callable[[str], str | None]:
    """Return a check for one of these words."""
    return lambda value: None if value in values else f"value is not in set: [{', '.join(values)}]"


def between(low: int, high: int) -> Callable[[str], str | None]:
    """Return a check for an integer within these bounds."""

    def refusal(value: str) -> str | None:
        digits = value[1:] if value[:1] in ("+", "-") else value
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
            return f'For input string: "{printable(value)}"'
        return None if low <= int(value) <= high else f"value is not in range({low}, {high})"

    return refusal


def any_text(value: str) -> str | None:
    """Check for a value that is not empty."""
    return None if value else "value is empty"


TOPIC: Final[Mapping[str, Attribute]] = {
    "queue.type": Attribute(False, one_of("BatchCQ", "SimpleCQ")),
    "cleanup.policy": Attribute(False, one_of("DELETE", "COMPACTION")),
    MESSAGE_TYPE: Attribute(
        True, one_of("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "LITE", MIXED)
    ),
    "reserve.time": Attribute(True, between(-1, LONG_MAX)),
    "lite.topic.expiration": Attribute(True, between(-1, LONG_MAX)),
    DISPATCHERS: Attribute(True, any_text),
    HOOKS: Attribute(True, any_text),
}
GROUP: Final[Mapping[str, Attribute]] = {
    "priority.factor": Attribute(True, between(0, 100)),
    "lite.bind.topic": Attribute(True, any_text),
    "lite.sub.model": Attribute(True, one_of("Shared", "Exclusive")),
    "lite.sub.reset.offset.exclusive": Attribute(True, one_of("true", "false")),
    "lite.sub.reset.offset.unsubscribe": Attribute(True, one_of("true", "false")),
    "lite.sub.client.quota": Attribute(True, between(-1, LONG_MAX)),
    "lite.sub.client.max.event.cnt": Attribute(True, between(-1, LONG_MAX)),
    "lite.sub.wildcard": Attribute(True, one_of("true", "false")),
}


def parse_changes(text: str) -> dict[str, str]:
    """Parse `+key=value,-key`. Return the value by signed key, "" for a removal. Raises `Refused` 1."""
    changes: dict[str, str] = {}
    listed = text.rstrip(",")  # Java ignores empty items at the end
    for item in listed.split(",") if listed else []:
        key, equals, value = item.partition("=")
        if equals and "+" not in key:
            raise _no(f"add/alter attribute format is wrong: {printable(key)}")
        if equals and not value:
            raise _no(f"the attribute {printable(key)} has no value: write +key=value, or -key to remove it")
        if not equals and "-" not in key:
            raise _no(f"delete attribute format is wrong: {printable(key)}")
        if key in changes:
            raise _no(f"key duplication: {printable(key)}")
        changes[key] = value.partition("=")[0]
    return changes


def altered(
    known: Mapping[str, Attribute], current: Mapping[str, str] | None, changes: Mapping[str, str]
) -> dict[str, str]:
    """Return the attributes after these changes; `current` is None for a new object. Raises `Refused` 1."""
    result = dict(current or {})
    seen: set[str] = set()
    for signed, value in changes.items():
        sign, key = signed[:1], signed[1:]
        if not key or "+" in key or "-" in key:
            raise _no("kv string format wrong.")
        if key in seen:
            raise _no(f"alter duplication key. key: {printable(key)}")
        seen.add(key)
        if current is None and sign != "+":
            raise _no(f"only add attribute is supported while creating topic. key: {printable(key)}")
        if sign == "-" and key not in result:
            raise _no(f"attempt to delete a nonexistent key: {printable(key)}")
        if sign not in ("+", "-"):
            raise _no(f"wrong format key: {printable(key)}")
        attribute = known.get(key)
        if attribute is None:
            raise _no(f"unsupported key: {printable(key)}; use one of {', '.join(known)}")
        if current is not None and not attribute.changeable:
            raise _no(f"attempt to update an unchangeable attribute. key: {key}")
        if sign == "-":
            del result[key]
            continue
        why = attribute.refusal(value)
        if why is not None:
            raise _no(why)
        result[key] = value
    return result


def _no(text: str) -> Refused:
    return Refused(SYSTEM_ERROR, text)
