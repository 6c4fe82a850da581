"""Identifies a log by the record before an offset: a stream stores this record to recognise the store later.

A folder that was restored from an older copy, or replaced, has the same offsets but different records. So a checkpoint
contains the position of the record before its offset, its store time, and the CRC of its body. If invalid bytes were
skipped before the offset, it contains the CRC of the last of these bytes.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from bolide.layout.columns import RecordColumns, find_starts
from bolide.layout.record import MIN_RECORD_SIZE
from bolide.layout.sysflag import BORN_HOST_V6

LAST: Final = "last"
WINDOW: Final = 4 * 1024
GROWTH: Final = 16
"""Growth factor of the window if it contains no complete record."""
MOST: Final = 64 * 1024 * 1024
"""Maximum window in bytes. It exceeds any record with the filler after it."""
NO_RECORD: Final = -1
"""Replaces the store time in a mark of bytes that are not a record."""
_TAIL: Final = 64
_MAGIC: Final = b"\xda\xa3\x20"
"""Magic number in every record, without its last byte, which depends on the version."""
ELSEWHERE: Final = "now has another record before that offset"
SHORTER: Final = "now ends before that offset"

File: TypeAlias = tuple[int, Path, int]
"""Start, path and size of a file of the log."""


class Before(NamedTuple):
    """A record as a checkpoint stores it, or the offset and the CRC of bytes that are not a record."""

    physical_offset: int
    stored_ms: int
    body_crc: int


def record_before(files: Sequence[File], at: int) -> Before | None:
    """Return the record that ends at this physical offset, or before a filler that does, or None if there is none."""
    return _look(files, at)[0]


def mark_before(files: Sequence[File], at: int) -> Before | None:
    """Return the mark of a log that was read up to this physical offset, or None if it has no bytes before it."""
    found, written = _look(files, at)
    if found is not None or not written:
        return found
    file = file_at(files, at - 1)
    low = at - _TAIL if file is None else max(file[0], at - _TAIL)
    data = _between(files, low, at)
    return Before(low, NO_RECORD, zlib.crc32(data)) if any(data) else None


def _between(files: Sequence[File], low: int, high: int) -> bytes:
    """Return the bytes of a range within a file, or fewer if the file ends before."""
    file = file_at(files, low)
    if file is None:
        return b""
    start, path, _ = file
    try:
        with path.open("rb") as opened:
            opened.seek(low - start)
            return opened.read(high - low)
    except FileNotFoundError:
        return b""


def changed(files: Sequence[File], at: int, known: Before | None, read_again: bool = False) -> str:
    """Return the reason why this log differs from the log that was read up to `at`, or "" if no difference is known.

    `known` is the record before `at` at that time, or None if a checkpoint of an earlier version lacks it. A deleted
    file is not a difference. Bytes that are not a record mean a different log, except with `read_again`: then the next
    read finds and reports the damage.
    """
    if not files or at <= files[0][0]:
        return ""
    if known is None:
        return "" if _look(files, at)[1] else SHORTER
    if known.stored_ms == NO_RECORD:
        data = _between(files, known.physical_offset, at)
        return "" if zlib.crc32(data) == known.body_crc else ELSEWHERE if any(data) else SHORTER
    head = _bytes_at(files, known.physical_offset)
    if head is None:
        return ""
    if not any(head):
        return SHORTER
    now = _head(head, known.physical_offset)
    return "" if now == known or (now is None and read_again) else ELSEWHERE


def file_at(files: Sequence[File], at: int) -> File | None:
    """Return the file that contains this physical offset, or the file before the gap. None before the first file.

    A file that is too long ends at the start of the next file, because both have bytes for the same offsets.
    """
    following: int | None = None
    for start, path, size in reversed(files):
        if start <= at:
            return start, path, size if following is None else min(size, following - start)
        following = start
    return None


def _bytes_at(files: Sequence[File], at: int) -> bytes | None:
    """Return the first bytes of the record at an offset, b"" if the log ends before it, or None if it was deleted."""
    found = file_at(files, at)
    if found is None:
        return None
    start, path, size = found
    if at >= start + size:
        return b"" if start == files[-1][0] else None
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return os.pread(file, MIN_RECORD_SIZE, at - start)
    finally:
        os.close(file)


def _head(data: bytes, at: int) -> Before | None:
    """Return the identity of a record from its first bytes at this offset, or None if they are not a record."""
    if len(data) < MIN_RECORD_SIZE or data[4:7] != _MAGIC or int.from_bytes(data[28:36], "big") != at:
        return None
    stored = 68 if int.from_bytes(data[36:40], "big") & BORN_HOST_V6 else 56
    return Before(at, int.from_bytes(data[stored : stored + 8], "big"), int.from_bytes(data[8:12], "big", signed=True))


def _look(files: Sequence[File], at: int) -> tuple[Before | None, bool]:
    """Return the record before an offset, and whether bytes were ever written there."""
    found = file_at(files, at - 1)
    if found is not None and at <= found[0] + found[2]:
        start, path, size = found
        try:
            return _last_in(path, start, at, at == start + size)
        except FileNotFoundError:
            return None, True
    return None, any(start >= at for start, _, _ in files)


def _last_in(path: Path, start: int, at: int, filled: bool) -> tuple[Before | None, bool]:
    """Like `_look`, in one file. With `filled`, a filler may be between the record and the offset."""
    file = os.open(path, os.O_RDONLY)
    try:
        window = WINDOW
        while True:
            low = max(start, at - window)
            data = os.pread(file, at - low, low - start)
            if not filled and not any(data):
                return None, False  # a record has its topic near its end
            found = find_starts(data, low)
            if len(found.starts):
                last = RecordColumns(data, found.starts[-1:])
                end = low + int(found.starts[-1]) + int(last.numbers("total_size")[0])
                if end != at and not filled:
                    return None, True
                names = ("physical_offset", "store_timestamp", "body_crc")
                return Before(*(int(last.numbers(name)[0]) for name in names)), True
            if low == start or window >= MOST:
                return None, any(data)
            window *= GROWTH
    finally:
        os.close(file)
