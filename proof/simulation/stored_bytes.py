"""Flips bits of a store in places that the product checks: bodies of records, and tables."""

from __future__ import annotations

from typing import Final

from proof.reader.records import leading
from proof.simulation.disk import Disk

BODY: Final = 88
"""Byte of a record between hosts with IPv4 addresses at which its body starts."""
TABLES: Final = ("topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json")


def flip_in_log(disk: Disk, place: float, *, cold: bool = False, newest: bool = False) -> str:
    """Flip a bit in the body of the record at `place` (0 to 1). Return a text for the trace, or "" without a body.

    With `cold` the file is not the newest one and is evicted from memory, so that a reader gets it from the disk.
    With `newest` the body is in the newest file.
    """
    folder = "/store/commitlog"
    files = [name for name in disk.names(folder) if name.isdigit()]
    bodies = [
        (name, record.at - int(name) + BODY, len(record.body))
        for name in files
        for record in leading(disk.content(f"{folder}/{name}") or b"", int(name), crc=False).records
        if record.body
    ]
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
