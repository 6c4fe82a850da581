"""The hashes that stored bytes depend on: Java's String.hashCode, the index key hash and tags codes.

From RocketMQ's MessageExtBrokerInner.tagsString2tagsCode and IndexFile.indexKeyHashMethod.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

_INT_MIN: Final = -2147483648


def java_hash(text: str) -> int:
    """Return Java's String.hashCode: the 31-polynomial over UTF-16 units as a signed 32-bit integer."""
    h: i64 = 0
    n: i64 = len(text)
    i: i64 = 0
    while i < n:
        c: i64 = ord(text[i])
        if c > 0xFFFF:
            # Outside the basic plane, Java has two units, a high and a low surrogate.
            c -= 0x10000
            h = (31 * h + 0xD800 + (c >> 10)) & 0xFFFFFFFF
            c = 0xDC00 + (c & 0x3FF)
        h = (31 * h + c) & 0xFFFFFFFF
        i += 1
    if h >= 0x80000000:
        h -= 0x100000000
    return h


def index_hash(text: str) -> int:
    """Return the hash of an index key text such as ``topic#key``: the absolute value of `java_hash`, 0 for the
    minimum."""
    h: i64 = java_hash(text)
    if h == _INT_MIN:
        return 0
    return -h if h < 0 else h


def tags_code(tags: str) -> int:
    """Return the tags code of a queue unit: `java_hash` of the tags, 0 without tags."""
    return java_hash(tags)
