"""The record before an offset of a log: a stream of a store records it, to recognise the store later.

A folder that was restored from an older copy, or replaced, has the same offsets but other records. So a checkpoint
contains the position of the record before its offset, its store time, and the CRC of its body. Where bytes that
are not a record were left out before the offset, it contains the CRC of the last of them.
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
"""How much more is read if a window contains no whole record."""
MOST: Final = 64 * 1024 * 1024
"""More than any record and the filler after it."""
NO_RECORD: Final = -1
"""In place of a store time: the mark is of bytes that are not a record."""
_TAIL: Final = 64
_MAGIC: Final = b"\xda\xa3\x20"
"""In every record; the last byte is left out, it depends on the version."""
ELSEWHERE: Final = "now has another record before that offset"
SHORTER: Final = "now ends before that offset"

File: TypeAlias = tuple[int, Path, int]
"""Start, path and size of a file of the log."""


class Before(NamedTuple):
    """A record, as in a checkpoint; or bytes from an offset on that are not one, with their CRC."""

    physical_offset: int
    stored_ms: int
    body_crc: int


def record_before(files: Sequence[File], at: int) -> Before | None:
    """The record that ends at this physical offset, or before the filler that does; None if there is none."""
    return _look(files, at)[0]


def mark_before(files: Sequence[File], at: int) -> Before | None:
    """What to recognise a log by that was read up to this physical offset; None if nothing is written before it."""
    found, written = _look(files, at)
    if found is not None or not written:
        return found
    file = file_at(files, at - 1)
    low = at - _TAIL if file is None else max(file[0], at - _TAIL)
    data = _between(files, low, at)
    return Before(low, NO_RECORD, zlib.crc32(data)) if any(data) else None


def _between(files: Sequence[File], low: int, high: int) -> bytes:
    """These bytes of one file; fewer if it does not have them."""
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
    """Why this log is not the one that was read up to `at`; empty if nothing shows that.

    `known` is the record before `at` as it was then, None if a checkpoint of an earlier version does not contain it. A
    deleted file shows nothing. Bytes that are not a record belong to another log, unless the record is to be
    `read_again`: that read then finds the damage and reports it.
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
    """The file that has this physical offset, or after which it is missing; None before the first file.

    A file that is too long ends where the next one begins: both have bytes for the same offsets then.
    """
    following: int | None = None
    for start, path, size in reversed(files):
        if start <= at:
            return start, path, size if following is None else min(size, following - start)
        following = start
    return None


def _bytes_at(files: Sequence[File], at: int) -> bytes | None:
    """The first bytes of the record at an offset, empty if the log ends before it; None if they were deleted."""
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
    """The identity of a record from its first bytes at this offset; None if they are not a record."""
    if len(data) < MIN_RECORD_SIZE or data[4:7] != _MAGIC or int.from_bytes(data[28:36], "big") != at:
        return None
    stored = 68 if int.from_bytes(data[36:40], "big") & BORN_HOST_V6 else 56
    return Before(at, int.from_bytes(data[stored : stored + 8], "big"), int.from_bytes(data[8:12], "big", signed=True))


def _look(files: Sequence[File], at: int) -> tuple[Before | None, bool]:
    """The record before an offset, and whether anything was ever written there."""
    found = file_at(files, at - 1)
    if found is not None and at <= found[0] + found[2]:
        start, path, size = found
        try:
            return _last_in(path, start, at, at == start + size)
        except FileNotFoundError:
            return None, True
    return None, any(start >= at for start, _, _ in files)


def _last_in(path: Path, start: int, at: int, filled: bool) -> tuple[Before | None, bool]:
    """The same in one file; `filled`: a filler may be between the record and the offset."""
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
