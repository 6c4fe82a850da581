"""Compares records with their CRCs where bytes may come from the disk (`CommitLog.checks_below`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from bolide.layout.errors import RecordError
from bolide.layout.record import (
    BLANK_MAGIC,
    BLANK_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    OFFSET_PHYSICAL,
    Record,
    body_matches,
    decode_record,
    find_record,
    is_good,
)
from bolide.store.disk.extents import Extent
from bolide.store.errors import RecordDamaged

if TYPE_CHECKING:
    from bolide.store.log.commit_log import CommitLog

_CRC_FAILS: Final = "does not match its CRC"
REPAIR: Final = "run `bolide store verify` on this store, and copy the store from another replica or repair it"


def count_intact(buffers: list[bytes | memoryview]) -> i64:
    """Return the number of records before the first that does not match its CRC. Each buffer contains complete
    records."""
    count: i64 = 0
    for each in buffers:
        data = each if isinstance(each, bytes) else bytes(each)
        at: i64 = 0
        end: i64 = len(data)
        while at < end:
            if end - at < BLANK_SIZE or not is_good(data, at, end, True):
                return count
            at += i64(read_i32_be(data, at))
            count += 1
    return count


def place_of(data: bytes, at: i64) -> str:
    """Return topic, queue and offset of the record at byte `at` as text for errors, or "" if its lengths do not
    match."""
    try:
        record = decode_record(data, at)
    except RecordError:
        return ""
    why = "" if body_matches(record) else f", its body {_CRC_FAILS}"
    return f" (topic {record.topic}, queue {record.queue_id}, offset {record.queue_offset}{why})"


def checked(record: Record, log: CommitLog) -> Record:
    """Return the record. Raises `RecordDamaged` if its body does not match its CRC."""
    if body_matches(record):
        return record
    log.damaged += 1
    raise RecordDamaged(
        f"the record at offset {record.physical_offset} of the log, of topic {record.topic}, queue {record.queue_id}, "
        f"offset {record.queue_offset}, {_CRC_FAILS}: {REPAIR}"
    )


def unreadable(offset: i64, log: CommitLog) -> RecordDamaged:
    """Count a record that cannot be decoded in `log.damaged`, and return the error to raise."""
    log.damaged += 1
    return RecordDamaged(f"the record at offset {offset} of the log is damaged, its lengths do not match: {REPAIR}")


def check_if_read(record: Record, log: CommitLog) -> None:
    """Raise `RecordDamaged` if this record of the log may come from the disk and does not match its CRC."""
    if record.physical_offset < log.checks_below():
        checked(record, log)


def checked_bytes(data: bytes, log: CommitLog) -> bytes:
    """Return the bytes of a record. Raises `RecordDamaged` if its body does not match its CRC."""
    if is_good(data, 0, len(data), False):
        checked(decode_record(data, 0), log)
    return data


class CheckedSpans:
    """Checks the bytes of the log that are sent to one slave, in consecutive pieces.

    A piece may end inside a record. That record is read and checked as a whole before its front is sent.
    """

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._checked: i64 = -1
        """Start of the next record to check, or -1 if unknown."""

    def intact(self, offset: i64, data: bytes) -> bytes | Extent:
        """Return the front of the log's bytes from `offset` whose records are intact, or an `Extent` to load first.

        Raises `RecordDamaged` if the first record of these bytes does not match its CRC.
        """
        segments = self._log.segments
        at = self._first(offset, data)
        if at < 0:
            return data
        end: i64 = len(data)
        room: i64 = self._log.segment_size - offset % self._log.segment_size
        while at < end:
            left: i64 = room - at
            head: bytes | None = data[at : at + BLANK_SIZE]
            if end - at < BLANK_SIZE <= left:
                head = segments.read_warm(offset + at, BLANK_SIZE)
                if head is None:
                    return segments.extent(offset + at, BLANK_SIZE)
            if head is None or len(head) < BLANK_SIZE or i64(read_i32_be(head, 4)) == BLANK_MAGIC:
                at = room
                break
            size: i64 = i64(read_i32_be(head, 0))
            record: bytes | None = data
            front = at
            if size > end - at and size <= left:
                front = 0
                record = segments.read_warm(offset + at, size)
            if record is None:
                return segments.extent(offset + at, size)
            if not _is_intact(record, front, offset + at):
                self._checked = offset + at
                if at > 0:
                    return data[:at]
                self._log.damaged += 1
                raise RecordDamaged(
                    f"the record at offset {offset} of the log{place_of(record, front)} is damaged and is not sent: "
                    f"{REPAIR}"
                )
            at += size
        self._checked = offset + at
        return data

    def _first(self, offset: i64, data: bytes) -> i64:
        """Return the byte of `data` where the first unchecked record starts, or -1 if there is none.

        A slave may request bytes from the middle of a record. That record is not checked, because the slave has its
        start.
        """
        if self._checked >= offset:
            return self._checked - offset
        head: bytes | None = data
        if len(data) < OFFSET_PHYSICAL + 8:
            head = self._log.segments.read_warm(offset, OFFSET_PHYSICAL + 8)
        if head is not None and len(head) >= BLANK_SIZE:
            magic: i64 = i64(read_i32_be(head, 4))
            if magic == BLANK_MAGIC:
                return 0
            if magic in (MAGIC_V1, MAGIC_V2) and len(head) >= OFFSET_PHYSICAL + 8:
                if read_i64_be(head, OFFSET_PHYSICAL) == offset:
                    return 0
        return find_record(data, 0, offset)


def _is_intact(data: bytes, at: i64, offset: i64) -> bool:
    """Return whether the record of the log at `offset`, which starts at byte `at`, is complete and matches its CRC."""
    limit: i64 = len(data)
    if limit - at < OFFSET_PHYSICAL + 8 or not is_good(data, at, limit, True):
        return False
    return read_i64_be(data, at + OFFSET_PHYSICAL) == offset
