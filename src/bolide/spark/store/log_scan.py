"""Finds the records in a byte range (stretch) of a CommitLog file, and the invalid bytes between them.

A task owns the records that start in its stretch, and the gap after each record up to the next one, wherever that is.
So every record and every bad byte of a log has exactly one owner, however the log is split. Files are opened read-only,
because a store may be on a read-only medium.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bolide.layout.columns import RecordColumns, blank_at, find_starts
from bolide.layout.record import MIN_RECORD_SIZE
from bolide.layout.sysflag import BORN_HOST_V6

if TYPE_CHECKING:
    from bolide.layout.property_columns import Ints
    from bolide.layout.record_parts import RecordParts

CHUNK: Final = 2 * 1024 * 1024
"""Number of bytes per read. It limits the memory of a task unless a record is longer."""
_LAP: Final = 64 * 1024
"""Number of bytes to read beyond a stretch first, so that its last record is usually complete."""
_HEAD: Final = 36
"""Number of bytes that prove a record. The next chunk repeats the last bytes of a chunk."""


@dataclass(frozen=True)
class Stretch:
    """Bytes [begin, end) of a CommitLog file of `size` bytes, whose first byte has physical offset `start`."""

    path: str
    start: int
    size: int
    begin: int
    end: int
    last: bool
    """Whether no later file has records. Then zeros are the end of the log, and a torn end is the result of a crash."""
    known_begin: bool = False
    """Whether a record or the filler starts at `begin`. This is always the case at the start of a file."""
    known_end: bool = False
    """Whether a record ends at `end`. Later bytes are not read, because a broker may be writing them."""
    named_end: int = 0
    """Physical offset up to which queues or checkpoint refer to records. An end of the log before it is damage."""
    clean: bool = False
    """Whether the store was stopped cleanly, so that the end of its log is not torn."""
    gap: int = 0
    """Number of bytes missing in the log after the file, which ends at `end`. Below 0, surplus bytes of the file."""
    named: int = -1
    """Physical offset of the first record here that a queue refers to if the previous stretch is not read, else -1."""


@dataclass(frozen=True)
class FoundRecords:
    """Complete records of a stretch: their positions in `data`, whose first byte has physical offset `base`."""

    data: bytes
    base: int
    parts: RecordParts

    @property
    def starts(self) -> Ints:
        """Start of each record in `data`."""
        return self.parts.starts

    def records(self) -> RecordColumns:
        """Return the columns of the records."""
        return RecordColumns(self.data, self.parts)


@dataclass(frozen=True)
class BadRange:
    """A range of `size` bytes of the log at `physical_offset` without a record, and the reason in one sentence.

    If `torn`, it is the incomplete end of the log. A broker truncates it at startup, and it is not a loss.
    """

    path: str
    physical_offset: int
    size: int
    reason: str
    torn: bool = False


def scan(part: Stretch, check_crc: bool = False, chunk: int = CHUNK) -> Iterator[FoundRecords | BadRange]:
    """Yield the records that a stretch owns in order, by chunk, and the bad ranges after them."""
    file = os.open(part.path, os.O_RDONLY)
    try:
        steps = _LogScan(file, part, chunk).steps()
        for step in steps if part.named < 0 else _after_named(steps, part):
            if check_crc and isinstance(step, FoundRecords):
                yield from _checked(step, part.path)
            else:
                yield step
    finally:
        os.close(file)
    end = part.start + part.size
    if part.gap > 0:
        reason = f"no bytes where the log should continue to {end + part.gap} (a file is missing or truncated)"
        yield BadRange(part.path, end, part.gap, reason)
    elif part.gap < 0:
        yield BadRange(part.path, end, -part.gap, "bytes beyond the start of the next file")


def _after_named(steps: Iterator[FoundRecords | BadRange], part: Stretch) -> Iterator[FoundRecords | BadRange]:
    """Yield the steps, and the gap before the first record if a queue refers to a record in it."""
    first = -1
    for step in steps:
        if first < 0 and isinstance(step, FoundRecords):
            first = step.base + int(step.starts[0])
            if first > part.named:
                yield _unnamed(part, first)
        yield step
    if first < 0:
        yield _unnamed(part, part.start + part.end)


def _unnamed(part: Stretch, end: int) -> BadRange:
    return BadRange(part.path, part.named, end - part.named, "bytes that are not a record, where a queue names one")


class _LogScan:
    """The state of a scan. Positions are in bytes of the file. `expected` is the start of the next record, or -1."""

    def __init__(self, file: int, part: Stretch, chunk: int) -> None:
        self._file = file
        self._part = part
        self._chunk = chunk
        self._expected = part.begin if part.begin == 0 or part.known_begin else -1
        self._limit = part.end if part.known_end else part.size
        self._done = False

    def steps(self) -> Iterator[FoundRecords | BadRange]:
        part = self._part
        at = part.begin
        want = min(self._chunk, part.end - at + _LAP)
        while at < self._limit and not self._done:
            if self._expected < 0 and at >= part.end:
                return  # no record starts here: these bytes belong to an earlier owner
            asked = min(want, self._limit - at)
            data = _read(self._file, asked, at)
            found = find_starts(data, part.start + at)
            yield from self._chunk_of(data, at, found.parts)
            if self._finished():
                return
            # After the stretch, search only the next record. It is near unless many bytes are lost.
            want = self._chunk if at < part.end else min(self._chunk, 2 * want)
            if found.cut >= 0:
                claimed = int.from_bytes(data[found.cut : found.cut + 4], "big")
                cut = at + found.cut
                if cut + claimed <= self._limit and len(data) == asked:
                    at, want = cut, max(want, claimed)
                    continue
                if cut + claimed > self._limit:
                    at = cut + 1  # it would not fit into the file: search after it
                    continue
            if at + len(data) >= self._limit or len(data) <= _HEAD:
                break
            at = max(self._expected, at + len(data) - _HEAD)
            if not len(found.starts):
                # Skip a hole: no record starts in it, except that the head of a record may overlap its end.
                at = max(at, next_data(self._file, at) - _HEAD)
        if self._expected >= 0 and not self._done:
            yield from self._tail()

    def _finished(self) -> bool:
        return self._done

    def _chunk_of(self, data: bytes, at: int, parts: RecordParts) -> Iterator[FoundRecords | BadRange]:
        part = self._part
        starts, ends = parts.starts, parts.end
        known = self._expected - at if self._expected >= 0 else (int(starts[0]) if len(starts) else 0)
        before = np.concatenate([[known], ends[:-1]])[: len(starts)]
        own = int(np.searchsorted(starts, part.end - at))
        bad: list[BadRange] = []
        for hole in np.flatnonzero(starts != before).tolist():
            if before[hole] >= 0 and self._filler(data, int(before[hole]), at):
                # Bytes after the filler are old, even if they look like records.
                own, self._done = min(own, hole), True
                break
            if hole <= own:
                bad.append(self._bad(at + int(before[hole]), at + int(starts[hole])))
        if own:
            yield FoundRecords(data, part.start + at, parts.of(slice(own)))
        yield from bad
        if own < len(starts):
            self._done = True
        elif own:
            self._expected = at + int(ends[own - 1])
        rest = self._expected - at
        if self._expected >= 0 and rest >= 0 and self._filler(data, rest, at):
            self._done = True

    def _filler(self, data: bytes, begin: int, at: int) -> bool:
        """Return whether a filler starts here and reaches the end of the file. A shorter filler would hide records."""
        size = int.from_bytes(data[begin : begin + 4], "big", signed=True)
        return blank_at(data, begin) and at + begin + size >= self._part.size

    def _bad(self, begin: int, end: int) -> BadRange:
        reason = f"{end - begin} bytes that are not a record, followed by records"
        return BadRange(self._part.path, self._part.start + begin, end - begin, reason)

    def _tail(self) -> Iterator[BadRange]:
        """Yield the bad range after the last record of a file, unless it is the filler."""
        part, begin = self._part, self._expected
        size = self._limit - begin
        if size < 1:
            return
        if self._filler(_read(self._file, 8, begin), 0, begin):
            return
        zeros = _zeros(self._file, begin, self._limit)
        named = min(part.named_end - part.start, self._limit) - begin
        what = "zeros" if zeros else "bytes that are not a record"
        if part.last and named > 0:
            # They were complete when a queue or the checkpoint was written: this is damage, not the effect of a kill.
            reason = f"{what} where queues or checkpoint name records up to {part.named_end},"
            yield BadRange(part.path, part.start + begin, named if zeros else size, reason)
        elif zeros and not part.last:
            reason = "zeros up to the end of the file, and the log continues in the next"
            yield BadRange(part.path, part.start + begin, size, reason)
        elif not zeros:
            torn = part.last and not part.clean
            reason = "the unfinished end of the log" if torn else "bytes that are not a record, to the end of the file"
            yield BadRange(part.path, part.start + begin, size, reason, torn)


def _checked(step: FoundRecords, path: str) -> Iterator[FoundRecords | BadRange]:
    """Yield the records whose body matches its CRC, and bad ranges for the other records."""
    good = step.records().matches_crc
    if good.all():
        yield step
        return
    if good.any():
        yield FoundRecords(step.data, step.base, step.parts.of(good))
    for at in step.starts[~good].tolist():
        size = int.from_bytes(step.data[at : at + 4], "big")
        yield BadRange(path, step.base + at, size, "a record whose body does not match its CRC")


def _read(file: int, size: int, at: int) -> bytes:
    """Return `size` bytes of the file, or fewer only at its end."""
    data = os.pread(file, size, at)
    while 0 < len(data) < size:
        more = os.pread(file, size - len(data), at + len(data))
        if not more:
            break
        data += more
    return data


def _zeros(file: int, begin: int, end: int) -> bool:
    """Return whether a range of the file contains only zeros. Does not read holes."""
    at = next_data(file, begin)
    while at < end:
        data = _read(file, min(CHUNK, end - at), at)
        if not data:
            return True
        if data != bytes(len(data)):
            return False
        at = next_data(file, at + len(data))
    return True


def next_data(file: int, at: int) -> int:
    """Return the first byte at or after `at` that is not in a hole. Preallocated files are mostly holes."""
    if not hasattr(os, "SEEK_DATA"):
        return at
    try:
        return os.lseek(file, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return os.fstat(file).st_size
        return at  # the file system does not report holes


def first_store_timestamp(path: str, start: int) -> int:
    """Return the store time in ms of the first record of a CommitLog file, or -1 if it does not start with a record."""
    return store_timestamp_at(path, start, start)


def store_timestamp_at(path: str, start: int, at: int) -> int:
    """Return the store time in ms of the record at physical offset `at` of the file at `start`, or -1 without one."""
    file = os.open(path, os.O_RDONLY)
    try:
        head = _read(file, MIN_RECORD_SIZE + 24, at - start)
    finally:
        os.close(file)
    if len(head) < MIN_RECORD_SIZE or int.from_bytes(head[28:36], "big") != at or head[4:7] != b"\xda\xa3\x20":
        return -1
    stored = 68 if int.from_bytes(head[36:40], "big") & BORN_HOST_V6 else 56
    return int.from_bytes(head[stored : stored + 8], "big")
