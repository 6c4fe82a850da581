"""Reads a store: its files by name, and its log record by record, in any state.

Used by `inspect` and `verify` for a store that no broker uses, and by the scrub for the parts of a running store that
no longer change. Does not write or lock. Needs memory for one chunk of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from bolide.dispatch.row import Dispatch, dispatch_at, scan_records
from bolide.layout.errors import LayoutError
from bolide.layout.record import (
    BAD_SIZED,
    BLANK,
    BLANK_MAGIC,
    GOOD,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    check_record,
    find_record,
)
from bolide.layout.shape import StoreShape
from bolide.store.disk.files import Files

CHUNK: Final = 8 * 1024 * 1024
ANY_SIZE: Final = 1 << 31
CRC_FAULT: Final = "a record whose body does not match its CRC"
"""Sentence of a `Problem` whose record follows as `Records`, because its header is valid."""
_RECORDS: Final = 65_536
_OVERLAP: Final = 5 * 1024 * 1024
"""More than the longest record of a default broker: bytes of a chunk that are re-read while searching for a
start."""


@dataclass(frozen=True)
class SegmentFile:
    """One file of a segment list. `start`: offset of its first byte in the stream."""

    path: str
    start: int
    size: int


@dataclass(frozen=True)
class Records:
    """Contiguous valid records, starting at a physical offset."""

    physical_offset: int
    dispatches: list[Dispatch]


@dataclass(frozen=True)
class Problem:
    """`size` invalid bytes of the log, starting at a physical offset."""

    physical_offset: int
    size: int
    sentence: str


@dataclass(frozen=True)
class End:
    """End of a segment's records. `blank`: whether a blank record follows them, so that the log continues in the next
    file."""

    physical_offset: int
    blank: bool


@dataclass(frozen=True)
class Searched:
    """Bytes up to a physical offset were searched for the next record. A caller that limits its reads may pause."""

    physical_offset: int


Step: TypeAlias = Records | Problem | End | Searched


def segment_files(files: Files, folder: str) -> list[SegmentFile]:
    """Return the segment files of a folder, by start. Names that are not 20 digits are omitted."""
    found = []
    for name in files.list_dir(folder):
        path = f"{folder}/{name}"
        if len(name) == 20 and name.isdecimal() and (size := files.size(path)) >= 0:
            found.append(SegmentFile(path, int(name), size))
    return found


def strange_names(files: Files, folder: str) -> list[str]:
    """Return the names in a segment folder that are not names of segments."""
    return [name for name in files.list_dir(folder) if len(name) != 20 or not name.isdecimal()]


def read_whole(files: Files, path: str, size: int, offset: int = 0) -> bytes:
    """Return a range of a file. Raises `LayoutError` if the file ends within the range."""
    handle = files.open(path)
    try:
        data = files.read_at(handle, size, offset)
    finally:
        files.close(handle)
    if len(data) < size:
        raise LayoutError(f"{path} ends at byte {offset + len(data)}, {size} bytes were wanted from {offset}")
    return data


def walk_segment(
    files: Files, file: SegmentFile, shape: StoreShape, check_crc: bool, chunk: int = CHUNK
) -> Iterator[Records | Problem | End]:
    """Yield the records and the invalid ranges of one CommitLog file in order, and then its end. Reads `chunk` bytes at
    a time."""
    handle = files.open(file.path)
    try:
        for step in walk_bytes(lambda size, at: files.read_at(handle, size, at), file, shape, check_crc, chunk=chunk):
            if not isinstance(step, Searched):
                yield step
    finally:
        files.close(handle)


def walk_bytes(
    read: Callable[[int, int], bytes],
    file: SegmentFile,
    shape: StoreShape,
    check_crc: bool,
    *,
    at: int = 0,
    chunk: int = CHUNK,
    longest: int = ANY_SIZE,
) -> Generator[Step]:
    """Yield the records and the invalid ranges of one CommitLog file from byte `at`, where a record starts.

    `read(size, at)` returns bytes of the file. A length field above `longest` is treated as damaged.
    """
    want = chunk
    while at < file.size:
        data = read(min(want, file.size - at), at)
        scanned = scan_records(data, 0, len(data), shape, check_crc, _RECORDS)
        if scanned.dispatches:
            yield Records(file.start + at, scanned.dispatches)
        at += int(scanned.end)
        more = at + len(data) - int(scanned.end) < file.size
        want = chunk
        if scanned.status == GOOD:
            continue
        if scanned.status == BLANK:
            yield End(file.start + at, blank=True)
            return
        if scanned.end and more:
            # A chunk may end within a record: re-read from the start of the record.
            continue
        rest = data[scanned.end :]
        needed = int.from_bytes(rest[:4], "big", signed=True)
        magic = int.from_bytes(rest[4:8], "big", signed=True)
        if len(rest) < needed <= file.size - at:
            if magic == BLANK_MAGIC:
                yield End(file.start + at, blank=True)
                return
            if magic in (MAGIC_V1, MAGIC_V2) and needed <= longest:
                want = needed
                continue
        if scanned.status == BAD_SIZED:
            inside = find_record(rest, MIN_RECORD_SIZE, file.start + at)
            if 0 < inside < needed:  # the size is wrong: do not skip the record that follows
                yield Problem(file.start + at, inside, f"{inside} bytes that are not a record, followed by records")
                at += inside
                continue
            yield Problem(file.start + at, needed, f"a record of {needed} bytes whose parts do not add up to that")
            at += needed
            continue
        if check_crc and check_record(rest, 0, len(rest), False).status == GOOD:
            yield Problem(file.start + at, needed, CRC_FAULT)
            yield Records(file.start + at, [dispatch_at(rest, 0, shape)])
            at += needed
            continue
        after = yield from _next_start(read, file, at)
        if after < 0:
            if (yield from _any_byte(read, file, at)):
                yield Problem(file.start + at, file.size - at, "bytes that are not a record, to the end of the file")
            break
        yield Problem(file.start + at, after - at, f"{after - at} bytes that are not a record, followed by records")
        at = after
    yield End(file.start + at, blank=False)


def _next_start(read: Callable[[int, int], bytes], file: SegmentFile, at: int) -> Generator[Step, None, int]:
    """Return the position in the file at which the next recognizable record starts, or -1."""
    while at < file.size:
        data = read(min(CHUNK, file.size - at), at)
        found = find_record(data, 0, file.start + at)
        if found >= 0:
            return at + found
        if len(data) < CHUNK:
            return -1
        at += max(MIN_RECORD_SIZE, len(data) - _OVERLAP)
        yield Searched(file.start + at)
    return -1


def _any_byte(read: Callable[[int, int], bytes], file: SegmentFile, at: int) -> Generator[Step, None, bool]:
    """Return whether the file has a non-zero byte at or after `at`."""
    while at < file.size:
        data = read(min(CHUNK, file.size - at), at)
        if not data:
            return False
        if data.count(0) != len(data):
            return True
        at += len(data)
        yield Searched(file.start + at)
    return False
