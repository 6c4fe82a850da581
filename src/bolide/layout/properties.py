"""Message properties as one string, ``name 0x01 value 0x02`` repeated: RocketMQ's MessageDecoder.

The reader is as lenient as Java's: it drops a pair without a name or without a value, and the last of several pairs
with one name applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mypy_extensions import i64

NAME_VALUE_SEPARATOR: Final = "\x01"
PROPERTY_SEPARATOR: Final = "\x02"


def parse_properties(text: str) -> dict[str, str]:
    """Return the pairs of a properties string, in the order of their first appearance."""
    pairs: dict[str, str] = {}
    for item in text.split("\x02"):
        at: i64 = item.find("\x01")
        if at > 0 and at < len(item) - 1:
            pairs[item[:at]] = item[at + 1 :]
    return pairs


def parse_properties_bytes(raw: bytes) -> dict[str, str]:
    """Return the pairs of stored properties. Invalid UTF-8 becomes U+FFFD, as in Java."""
    return parse_properties(text_of(raw))


def format_properties(properties: Mapping[str, str]) -> str:
    """Return the string that RocketMQ 5.x writes: every pair ends with 0x02. A reader drops pairs with empty values."""
    parts: list[str] = []
    for name, value in properties.items():
        parts.append(name)
        parts.append("\x01")
        parts.append(value)
        parts.append("\x02")
    return "".join(parts)


def text_of(raw: bytes) -> str:
    """Decode a stored text as Java does: UTF-8, with U+FFFD for invalid bytes."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace")


def property_value(raw: bytes, name: str) -> str | None:
    """Return one property from the stored bytes, or None. Cheaper than parsing all properties."""
    found = raw_value(raw, name.encode("utf-8") + b"\x01")
    return None if found is None else text_of(found)


def raw_value(raw: bytes, wanted: bytes) -> bytes | None:
    """Return the stored bytes of one property, or None; `wanted` is its name with the terminating 0x01."""
    size: i64 = len(wanted)
    end: i64 = len(raw)
    at: i64 = raw.rfind(wanted)
    while at >= 0:
        if at == 0 or raw[at - 1] == 2:
            stop: i64 = raw.find(b"\x02", at + size)
            if stop < 0:
                stop = end
            if stop > at + size:
                return raw[at + size : stop]
        at = raw.rfind(wanted, 0, at)
    return None
