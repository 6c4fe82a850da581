"""Scans a log for the end of its valid records and for the bytes after it. Does not write.

A start scans before it writes, so that a rejected log is unchanged. `store repair` uses the same checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from librt.strings import read_i32_be
from msgspec import Struct

from bolide.dispatch.row import pass_records, scan_records
from bolide.layout.record import (
    BLANK,
    BLANK_SIZE,
    GOOD,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    OFFSET_PHYSICAL,
    check_record,
    find_record,
    properties_at,
    topic_start,
)
from bolide.layout.shape import StoreShape
from bolide.store.disk.segments import SegmentList

CHUNK: Final = 4 * 1024 * 1024
SECTOR: Final = 512
"""Smallest unit that a disk writes, and that a power failure can lose."""
LONGEST: Final = 64 * 1024 * 1024
"""Maximum size of a record. A larger value in a size field is invalid."""
_ZEROS: Final = bytes(CHUNK)
_RECORDS: Final = 4096
NO_LIMIT: Final = 1 << 62


class Run(Struct, frozen=True):
    """Contiguous valid records from `begin` to `end`, with their number and newest store timestamp."""

    begin: int
    end: int
    count: int
    store_timestamp: int


@dataclass
class LogEnd:
    """The position at which reading stopped. Offsets are bytes of the log."""

    end: int
    """End of the last valid record (or of the filler after it)."""
    records: int = 0
    store_timestamp: int = 0
    """Newest store timestamp of the records read, or 0 without records."""
    todo_from: int = -1
    """Offset of the first record to dispatch, or -1."""


class Survey:
    """Scans the log of one store, with the rules of its shape."""

    def __init__(self, log: SegmentList, shape: StoreShape, check_crc: bool) -> None:
        self._log = log
        self.whole_until = NO_LIMIT
        """Records that end beyond this offset may lack sectors that no CRC covers."""
        self._shape = shape
        self._check_crc = check_crc
        self._whole_crc = check_crc and shape.verify_property_crc

    # -- the front --

    def read(self, starts: list[int], dispatched: int, indexed: int) -> LogEnd:
        """Read up to the first position without a complete record that contains its own physical offset. `starts`: the
        starts of consecutive files. The first may be the start of any record in its file.

        A record that ends at or before `dispatched` and starts at or before `indexed` need not be dispatched. With -1,
        every record must be dispatched.
        """
        found = LogEnd(starts[0])
        for start in starts:
            if not self._read_segment(start, found, dispatched, indexed):
                return found
        # A blank record ends the last file. A slave that has received no further bytes has acknowledged it, so the log
        # ends after it.
        size = int(self._log.segment_size)
        found.end += size - found.end % size
        return found

    def _read_segment(self, start: int, found: LogEnd, dispatched: int, indexed: int) -> bool:
        """Advance `found` through one file. Return whether a blank record ends it, so that the log continues in the
        next file."""
        size = int(self._log.segment_size)
        stop = start - start % size + size
        base, at = start, 0
        data = self._log.read(base, min(CHUNK, stop - base))
        while True:
            if found.todo_from < 0:
                at = self._pass(data, at, base, found, indexed, dispatched)
            more = self._pass_rest(data, at, base, found)
            if found.todo_from < 0 and more > at:
                found.todo_from = base + at
            at = more
            found.end = base + at
            if check_record(data, at, len(data), False).status == BLANK:
                return True
            if base + len(data) >= stop:
                return False
            # A record may continue after the buffer: re-read from its first byte.
            want = CHUNK
            if at == 0:
                want = int.from_bytes(data[:4], "big", signed=True)
                if want <= len(data) or want > LONGEST:
                    return False
            base, at = base + at, 0
            data = self._log.read(base, min(max(want, CHUNK), stop - base))
            if not data:
                return False

    def _pass_rest(self, data: bytes, at: int, base: int, found: LogEnd) -> int:
        """Skip all valid records. Records that may lack sectors are checked one by one."""
        at = self._pass(data, at, base, found, NO_LIMIT, self.whole_until)
        while base + at + MIN_RECORD_SIZE <= base + len(data):
            newest = found.store_timestamp
            end = self._pass(data, at, base, found, base + at, NO_LIMIT)
            if end == at:
                break
            if lacks_sector(data, at, end, base):
                found.records -= 1
                found.store_timestamp = newest
                break
            at = end
        return at

    def _pass(self, data: bytes, at: int, base: int, found: LogEnd, last: int, until: int) -> int:
        if self._whole_crc:
            return self._pass_whole(data, at, base, found, last, until)
        passed = pass_records(data, at, base, self._check_crc, last, until)
        found.records += int(passed.count)
        found.store_timestamp = max(found.store_timestamp, int(passed.store_timestamp))
        return int(passed.end)

    def _pass_whole(self, data: bytes, at: int, base: int, found: LogEnd, last: int, until: int) -> int:
        """Like `_pass`, with forceVerifyPropCRC: checks the CRC of the whole record, which is in its properties."""
        while True:
            scanned = scan_records(data, at, len(data), self._shape, True, _RECORDS)
            for d in scanned.dispatches:
                if d.physical_offset != base + at or base + at > last or base + at + d.size > until:
                    return at
                found.records += 1
                found.store_timestamp = max(found.store_timestamp, int(d.store_timestamp))
                at += int(d.size)
            if scanned.status != GOOD or at >= len(data):
                return at

    # -- after it --

    def runs_behind(self, at: int) -> Iterator[Run]:
        """Yield the runs of valid records from an offset to the end of the files.

        A record is valid if its physical offset, magic, size and CRC are right. Bytes after a blank are ignored.
        """
        size = int(self._log.segment_size)
        if _is_blank(self._log.read(at, BLANK_SIZE)):
            at += size - at % size
        for start in self._log.segment_starts():
            if start + size > at:
                yield from self._runs_of(max(at, start), start + size)

    def _runs_of(self, at: int, stop: int) -> Iterator[Run]:
        while at < stop:
            at = self._next_start(at, stop)
            if at < 0:
                return
            run = self._run_from(at, stop)
            if not run.count:
                at += 1
                continue
            yield run
            at = run.end
            if at >= stop or _is_blank(self._log.read(at, BLANK_SIZE)):
                return

    def _next_start(self, at: int, stop: int) -> int:
        """Return the offset of the next record that is valid apart from its CRC, or -1."""
        while at < stop:
            data_at = int(self._log.next_data(at))
            if data_at < 0:
                return -1
            at = max(at, data_at - 3)  # a record starts with the zero bytes of its size
            data = self._log.read(at, min(CHUNK, stop - at))
            found = find_record(data, 0, at)
            if found >= 0:
                return at + found
            if len(data) < MIN_RECORD_SIZE or at + len(data) >= stop:
                return -1
            cut = _record_cut_off(data, at)
            if cut < 0:
                at += len(data) - MIN_RECORD_SIZE + 1
                continue
            at += cut
            longer = self._log.read(at, min(int.from_bytes(data[cut : cut + 4], "big"), stop - at))
            if find_record(longer, 0, at) == 0:
                return at
            at += 1
        return -1

    def _run_from(self, begin: int, stop: int) -> Run:
        found = LogEnd(begin)
        at, want = begin, CHUNK
        while at < stop:
            data = self._log.read(at, min(want, stop - at))
            done = self._pass_rest(data, 0, at, found)
            if done == 0:
                size = int.from_bytes(data[:4], "big", signed=True) if len(data) >= BLANK_SIZE else 0
                if size <= len(data) or size > LONGEST or len(data) < want:
                    break
                want = size
                continue
            at += done
            want = CHUNK
        return Run(begin, at, found.records, found.store_timestamp)

    def last_data(self, at: int) -> int:
        """Return the offset after the last non-zero byte of the file that contains `at`, or `at` if all later bytes are
        zero."""
        size = int(self._log.segment_size)
        last, stop = at, min(int(self._log.end_of_files), at - at % size + size)
        while at < stop:
            at = int(self._log.next_data(at))
            if at < 0:
                break
            data = self._log.read(at, min(CHUNK, stop - at))
            if not data:
                break
            if data != _ZEROS[: len(data)]:
                last = at + len(data.rstrip(b"\0"))
            at += len(data)
        return last

    def fault_at(self, at: int) -> str:
        """Describe the fault of the record at this position in a few words."""
        size = int(self._log.segment_size)
        room = size - at % size
        head = self._log.read(at, min(MIN_RECORD_SIZE, room))
        if not head or not any(head):
            return "zeros in the place of a record" if head else "nothing, for the file is not there"
        claimed = int.from_bytes(head[:4], "big", signed=True)
        magic = int.from_bytes(head[4:8], "big", signed=True)
        if magic not in (MAGIC_V1, MAGIC_V2):
            return "bytes that are not a record"
        data = self._log.read(at, min(claimed, room)) if 0 < claimed <= LONGEST else b""
        if check_record(data, 0, len(data), False).status != GOOD:
            return "a record whose parts do not add up to its size"
        own = int.from_bytes(data[OFFSET_PHYSICAL : OFFSET_PHYSICAL + 8], "big", signed=True)
        if own != at:
            return f"a record that calls itself {own}"
        if lacks_sector(data, 0, claimed, at):
            return "a record that lacks a part of its properties"
        return "a record that does not match its CRC"


def lacks_sector(data: bytes, begin: int, end: int, base: int) -> bool:
    """Return whether a sector with topic or properties of this record is all zeros because it never reached the disk.

    `base`: offset of `data` in the log. No producer can send such properties (`refuse_zeros`).
    """
    at = int(topic_start(data, begin))
    if read_i32_be(data, begin + 4) == MAGIC_V2:
        at += 1  # the first byte of the topic's length is zero, and may be the last of its sector
    if not properties_at(data, begin):
        end -= 2  # their length, which is 0
    while at < end:
        stop = min(end, at - (base + at) % SECTOR + SECTOR)
        if data[stop - 1] == 0 and not data[at:stop].strip(b"\0"):
            return True
        at = stop
    return False


def _is_blank(head: bytes) -> bool:
    return len(head) == BLANK_SIZE and head[4:] == b"\xcb\xd4\x31\x94"


def _record_cut_off(data: bytes, base: int) -> int:
    """Return the position of the first record with a valid head whose end is after the buffer, or -1."""
    for magic in (b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab"):
        found = data.find(magic, 4)
        while found >= 0:
            at = found - 4
            if data[at + OFFSET_PHYSICAL : at + OFFSET_PHYSICAL + 8] == (base + at).to_bytes(8, "big"):
                claimed = int.from_bytes(data[at : at + 4], "big", signed=True)
                if len(data) - at < claimed <= LONGEST:
                    return at
            found = data.find(magic, found + 1)
    return -1
