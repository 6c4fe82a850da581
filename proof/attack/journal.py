"""Entries of the journals of an attack, written before an event or after its response, and the bodies of messages."""

from __future__ import annotations

import random
import zlib
from typing import Final

SEND: Final = "send"
"""number, topic, size of the filler, tags, keys, properties, kind, seconds to its time, lane"""
DONE: Final = "done"
"""numbers, broker, topic, queue, offset"""
REFUSED: Final = "refused"
"""numbers, why"""
UNKNOWN: Final = "unknown"
"""numbers, why"""
GOT: Final = "got"
"""serial, group, broker, topic of the queue, queue, offset, number, topic shown, check of the body, tags, keys,
properties"""
LISTENED: Final = "listened"
"""serial, accepted"""
CHANGING: Final = "changing"
"""serial, key, value"""
CHANGED: Final = "changed"
"""serial, outcome"""
FAILED: Final = "failed"
"""text of an error that no client should meet"""
READY: Final = "ready"
TABLES: Final = "tables"
"""pairs of key and value, as the files of a server say while it is down"""


def filler(number: int, size: int) -> bytes:
    """What the body of a message holds after its number: half of it compresses well."""
    half = size // 2
    return random.Random(number).randbytes(size - half) + b"bolide " * (half // 7) + b"." * (half % 7)


def body(number: int, size: int) -> bytes:
    """The body of a message."""
    return b"#%d#" % number + filler(number, size)


def check(data: bytes) -> int:
    """A checksum of a body, which stands for it in a journal."""
    return zlib.crc32(data)


def commits(number: int) -> bool:
    """How the transaction of a message ends: a producer that starts again knows it, too."""
    return random.Random(number ^ 0x5EED).random() < 0.7
