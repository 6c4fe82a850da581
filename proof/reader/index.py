"""Index files (docs/protocol/store.md 4)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from proof.reader.queues import java_hash


def read_index(files: Iterable[bytes], slots: int) -> Iterator[tuple[int, int]]:
    """Yield the key hash and the record's offset of each entry that a search through the slots finds."""
    for data in files:
        if len(data) < 40:
            continue
        (count,) = struct.unpack_from(">i", data, 36)
        for number in struct.unpack_from(f">{slots}i", data, 40):
            while 0 < number <= count:
                key, at, _, before = struct.unpack_from(">iqii", data, 40 + slots * 4 + number * 20)
                yield key, at
                number = before if before < number else 0


def key_hash(topic: str, key: str) -> int:
    """Return the hash of a key of a topic, as an entry has it."""
    hashed = abs(java_hash(f"{topic}#{key}"))
    return 0 if hashed == 1 << 31 else hashed
