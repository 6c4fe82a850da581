"""Units of a consume queue (docs/protocol/store.md 3)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

UNIT: Final = struct.Struct(">qiq")
FILLER: Final = 0x7FFFFFFF
"""Size in the units before the first real one of a queue."""


class Unit(NamedTuple):
    """A unit with its queue offset, and the offset and size of its record."""

    number: int
    at: int
    size: int
    code: int


def read_units(files: Iterable[tuple[int, bytes]], *, past_holes: bool = False) -> Iterator[Unit]:
    """Yield the units up to the first empty one; with `past_holes`, skip empty units."""
    for start, data in files:
        whole = len(data) - len(data) % UNIT.size
        for number, (at, size, code) in enumerate(UNIT.iter_unpack(data[:whole]), start // UNIT.size):
            if at == size == 0:
                if not past_holes:
                    return
            elif size != FILLER:
                yield Unit(number, at, size, code)


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode` of ASCII text, which is the code of tags."""
    value = 0
    for char in text:
        value = (31 * value + ord(char)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
