"""What clients note while they run: one JSON array a line, written before the thing happens or after it was answered.

Each process has a file of its own. A line is written with one call and needs no flush, so it outlives a SIGKILL of its
process; the last line of a killed process may be torn. Times are the monotonic clock, which all processes share.
"""

from __future__ import annotations

import json
import os
import random
import time
import zlib
from pathlib import Path
from typing import Any, Final

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

Entry = list[Any]
"""Time, name of what happened, and its fields as listed above."""


class Journal:
    """The writing end."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._serial = 0

    def note(self, what: str, *fields: object) -> None:
        """Write one line."""
        line = json.dumps([time.monotonic(), what, *fields], separators=(",", ":"))
        os.write(self._fd, line.encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def next_serial(self) -> str:
        """A name that ties two lines of this process together."""
        self._serial += 1
        return f"{os.getpid()}-{self._serial}"


class Follower:
    """The reading end of a file that still grows, or does not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def entries(self) -> list[Entry]:
        """The lines that are complete and new. A torn line is one that another process continued after a kill."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        found = []
        for line in whole.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, list):
                found.append(entry)
        return found


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
