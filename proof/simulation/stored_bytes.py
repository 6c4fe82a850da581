"""Flips bits of a store in places that the product checks: bodies of records, and tables."""

from __future__ import annotations

import struct
from typing import Final

from bolide.layout.record import MAGIC_V1, MAGIC_V2
from proof.simulation.disk import Disk

BODY_LENGTH: Final = 84
"""Byte of a record of version 1, between hosts with IPv4 addresses, at which the length of its body is."""
TABLES: Final = ("topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json")


def flip_in_log(disk: Disk, place: float, *, cold: bool = False, newest: bool = False) -> str:
    """Flip a bit in the body of the record at `place` (0 to 1). Return a text for the trace, or "" without a body.

    With `cold` the file is not the newest one and is evicted from memory, so that a reader gets it from the disk.
    With `newest` the body is in the newest file.
    """
    folder = "/store/commitlog"
    files = [name for name in disk.names(folder) if name.isdigit()]
    bodies = [(name, at, size) for name in files for at, size in _bodies(disk.content(f"{folder}/{name}") or b"")]
    last = bodies[-1][0] if bodies else ""
    if cold or newest:
        bodies = [body for body in bodies if (body[0] == last) is newest]
    if not bodies:
        return ""
    name, at, size = bodies[int(place * len(bodies)) % len(bodies)]
    offset = at + int(place * 1e6) % size
    path = f"{folder}/{name}"
    disk.flip(path, offset, int(place * 1e7) % 8)
    if cold:
        disk.cold.add(path)
    return f"a bit of {path} flips at {offset}"


def flip_in_table(disk: Disk, place: float) -> str:
    """Flip a bit in a table; return a text for the trace, or "" if the table does not exist."""
    name = TABLES[int(place * len(TABLES)) % len(TABLES)]
    path = f"/store/config/{name}"
    data = disk.content(path)
    if not data:
        return ""
    offset = int(place * 1e6) % len(data)
    disk.flip(path, offset, int(place * 1e7) % 7)
    return f"a bit of {path} flips at {offset}"


def _bodies(data: bytes) -> list[tuple[int, int]]:
    """Offset and length of each body in a file of the log."""
    found, at = [], 0
    while at + BODY_LENGTH + 4 <= len(data):
        size, magic = struct.unpack_from(">II", data, at)
        if size == 0 or magic not in (MAGIC_V1 & 0xFFFFFFFF, MAGIC_V2 & 0xFFFFFFFF):
            break
        (length,) = struct.unpack_from(">I", data, at + BODY_LENGTH)
        if 0 < length < size:
            found.append((at + BODY_LENGTH + 4, length))
        at += size
    return found
