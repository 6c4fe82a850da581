"""Determines the durable end of a store, up to which it may be read while a broker writes to it.

Without the file `abort`, no broker is running and the whole log is durable. Otherwise the checkpoint decides: records
are durable if they were stored no later than its flushed time or precede its confirm offset. In controller mode, only
the confirm offset is used, because flushed records may still be truncated. Otherwise the later limit is used, because a
Java broker writes the confirm offset only at startup.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from bolide.layout.checkpoint import Checkpoint, decode_checkpoint
from bolide.layout.columns import RecordColumns, blank_at, find_starts
from bolide.layout.errors import LayoutError
from bolide.spark.errors import CorruptStore
from bolide.spark.store.last_record import record_before
from bolide.spark.store.log_scan import first_store_timestamp, next_data, store_timestamp_at
from bolide.spark.store.store_folder import RecordedEnd, Segment, log_end, segment_files

if TYPE_CHECKING:
    from bolide.layout.property_columns import Ints

CHUNK: Final = 4 * 1024 * 1024
SETTLED_MS: Final = 1000
"""Age in ms from which a flushed time includes records stored in the same millisecond."""
CONTROLLER_FILE: Final = "epochFileCheckpoint"
AUTO: Final = "auto"
CONFIRM: Final = "confirm"
FLUSHED: Final = "flushed"
RULES: Final = (AUTO, CONFIRM, FLUSHED)
FILLED: Final = 0
LIMITED: Final = 1
BROKEN: Final = 2
_LOG: Final = logging.getLogger("bolide.spark")


@dataclass(frozen=True)
class Limit:
    """The durable limit: records before physical offset `offset`, and records stored at `timestamp` (ms) or earlier. If
    `whole`, all records are durable."""

    offset: int
    timestamp: int
    whole: bool = False
    settled: bool = True
    """Whether a record was stored at `timestamp`: if the log lacks such a record, it has lost records."""


def read_limit(root: Path, rule: str = AUTO) -> Limit:
    """Return the current limit according to the files of the store."""
    stopped = not (root / "abort").exists()
    try:
        checkpoint = decode_checkpoint((root / "checkpoint").read_bytes())
    except (FileNotFoundError, LayoutError):
        checkpoint = Checkpoint()
    # Check this last: a broker that started in between had not written when the checkpoint was read.
    flushed = checkpoint.physic_msg_timestamp
    if stopped and not (root / "abort").exists() and rule == AUTO:
        return Limit(0, 0 if (root / CONTROLLER_FILE).exists() else flushed, whole=True)
    settled = flushed <= time.time() * 1000 - SETTLED_MS
    if not settled:
        flushed -= 1  # the broker may be writing a record in this millisecond
    confirm = rule == CONFIRM or (rule == AUTO and (root / CONTROLLER_FILE).exists())
    offset = 0 if rule == FLUSHED else checkpoint.confirm_physical_offset
    return Limit(offset, 0 if confirm else flushed, settled=settled)


class DurableEnd:
    """Follows the durable end, record by record in the newest file, by file names and times in older files.

    Includes only consecutive complete records, so neither a torn record nor an old record after the end. Then checks
    that all expected records exist: the records that are flushed according to the checkpoint and, in a cleanly stopped
    store, the records in its queues or checkpoint. A cleanly stopped log must not have later bytes unless queues and
    checkpoint end exactly at its end. If records are missing, `find` raises `CorruptStore`, or with `skip_corrupt` logs
    the number of skipped bytes and continues with the records after them.
    """

    def __init__(self, root: Path, rule: str = AUTO, skip_corrupt: bool = False) -> None:
        self._root = root
        self._rule = rule
        self._skip_corrupt = skip_corrupt
        self._at = -1
        self._limited = False
        """Whether records follow that are not durable yet."""
        self._told: tuple[int, Limit] | None = None
        """End and limit of the last comparison."""
        self._passed = -1
        """End of skipped bytes. No complete record ends there, so it is not the end of the log."""

    def find(self) -> int:
        """Return the physical offset after the last durable record, or the start of the first file if there is none."""
        # Read the limit before the files: it does not cover what is written later.
        limit = read_limit(self._root, self._rule)
        files = segment_files(self._root / "commitlog")
        if not files:
            return max(self._at, 0)
        self._at = max(self._at, files[0][0])
        self._follow(files, limit)
        while self._told != (self._at, limit):
            seen = self._at
            self._compare(files, limit)
            self._told = seen, limit
            if self._at != seen:
                self._passed = self._at
                self._follow(files, limit)
        return self._at

    def _follow(self, files: Sequence[Segment], limit: Limit) -> None:
        """Walk over the durable records, file after file."""
        self._limited = False
        for number, (start, _, size) in enumerate(files):
            if self._at >= start + size:
                continue
            following = files[number + 1] if number + 1 < len(files) else None
            if following is not None and _begins_within(following, limit):
                self._at = following[0]
                continue
            try:
                done = self._walk_over(files, files[number], limit)
            except FileNotFoundError:
                continue  # deleted since it was listed: the next files follow
            if not done or following is None or not _begins_within(following, limit):
                self._limited = self._limited or (done and following is not None)
                break
            self._at = following[0]

    def _walk_over(self, files: Sequence[Segment], file: Segment, limit: Limit) -> bool:
        """Walk to the end of the durable records of a file. Returns whether its filler follows."""
        start, path, size = file
        while True:
            self._at, ended = _walk(path, start, size, max(self._at, start), limit)
            self._limited = ended == LIMITED
            if ended != BROKEN:
                return ended == FILLED
            after = next_start(str(path), start, size, self._at)
            # A durable record is not part of a write in progress, and bytes before it are older.
            if after >= start + size or not _is_within(path, start, after, limit) or self._was_cut(files, limit):
                return False
            if not self._skip_corrupt:
                raise self._corrupt(f"where records follow at {after}")
            self._at = after

    def _was_cut(self, files: Sequence[Segment], limit: Limit) -> bool:
        """Return whether a stopped broker's log ends where queues and checkpoint end, so that later bytes are not part
        of it.

        Java's recovery truncates a torn tail only by changing its position. The bytes remain until new records
        overwrite them, and a clean stop may precede that.
        """
        ended = limit.whole and self._at > 0 and self._at != self._passed
        named = ended and log_end(self._root) == RecordedEnd(self._at, clean=True)
        return named and not self._lacks_flushed(files, limit)

    def _compare(self, files: Sequence[Segment], limit: Limit) -> None:
        """Raise `CorruptStore` if records should follow the found end, or log them and skip to the next records."""
        last_end = files[-1][0] + files[-1][2]
        if limit.whole:
            known = log_end(self._root)
            if not known.clean:
                return  # a broker has started since
            if known.named > self._at:
                where = f"where queues or checkpoint name records up to {known.named}"
                seen = self._at
                self._pass_over(files, limit, where, known.named)
                if self._at == seen:
                    self._at = max(seen, min(known.named, last_end))
                return
            proven = known.named >= max(self._at, 1) and self._at != self._passed
            if not proven and self._at < last_end and _holds_bytes(files, self._at):
                self._pass_over(files, limit, "in a store that was stopped cleanly", last_end)
                return
        if limit.offset > _after_filler(files, self._at):
            where = f"where the checkpoint says that all before {limit.offset} is confirmed"
        elif self._lacks_flushed(files, limit):
            where = f"where the checkpoint says that records stored until {limit.timestamp} ms are on disk"
        else:
            return
        # The checkpoint contains the first byte of the last confirmed record.
        self._pass_over(files, limit, where, max(log_end(self._root).named, last_end, limit.offset, self._at + 1))

    def _lacks_flushed(self, files: Sequence[Segment], limit: Limit) -> bool:
        """Return whether all records before the found end are older than the checkpoint's flushed time."""
        if not limit.timestamp or (self._limited and not limit.settled):
            return False
        before = record_before(files, self._at)
        # Without one, all earlier records have expired, and if a record follows, the flushed records have also expired.
        first = not self._limited and self._at == files[0][0]
        if before is None and not (first and (self._at == 0 or _holds_bytes(files[:1], self._at))):
            return False
        stored = -1 if before is None else before.stored_ms
        return stored < limit.timestamp and not _has_stored_since(files, self._at, limit.timestamp)

    def _pass_over(self, files: Sequence[Segment], limit: Limit, where: str, end: int) -> None:
        """Skip the bytes up to the next file with complete records, else up to `end`. Raises `CorruptStore` unless
        corrupt bytes may be skipped."""
        if not self._skip_corrupt:
            raise self._corrupt(where)
        after = _later_record(files, self._at, limit)
        size = (end if after < 0 else after) - self._at
        _LOG.warning("%s: left out %d bytes at physical offset %d, %s", self._root, size, self._at, where)
        self._at = max(self._at, after)

    def _corrupt(self, where: str) -> CorruptStore:
        return CorruptStore(
            f"{self._root} holds no whole record at physical offset {self._at}, {where}: set corruptRecords to skip to "
            "read the rest, or bring the file back"
        )


def _begins_within(file: tuple[int, Path, int], limit: Limit) -> bool:
    """Return whether the first record of a file is durable. Then all earlier files are also durable."""
    start, path, _ = file
    try:
        stored = first_store_timestamp(str(path), start)
    except FileNotFoundError:
        return True
    return stored >= 0 and (limit.whole or start < limit.offset or stored <= limit.timestamp)


def _is_within(path: Path, start: int, at: int, limit: Limit) -> bool:
    """Return whether the record at physical offset `at` of a file is durable."""
    stored = store_timestamp_at(str(path), start, at)
    return stored >= 0 and (limit.whole or at < limit.offset or stored <= limit.timestamp)


def _after_filler(files: Sequence[Segment], at: int) -> int:
    """Return the end of the file if its filler starts at this physical offset, else the offset."""
    for start, path, size in files:
        if start <= at < start + size:
            try:
                with path.open("rb") as opened:
                    opened.seek(at - start)
                    return start + size if blank_at(opened.read(8), 0) else at
            except FileNotFoundError:
                return start + size  # deleted since it was listed
    return at


def _later_record(files: Sequence[Segment], at: int, limit: Limit) -> int:
    """Return the first complete record of the next file after physical offset `at` with a durable record, or -1."""
    for start, path, size in files:
        if start > at:
            try:
                found = next_start(str(path), start, size, start)
                if found < start + size and _is_within(path, start, found, limit):
                    return found
            except FileNotFoundError:
                continue  # deleted since it was listed
    return -1


def _has_stored_since(files: Sequence[Segment], end: int, timestamp: int) -> bool:
    """Return whether the newest file before physical offset `end` has a record stored at `timestamp` (ms) or later.
    Then the clock of the broker was set back, and the later records have earlier times."""
    start, path, size = max((file for file in files if file[0] < end), default=files[0])
    at = start
    try:
        with path.open("rb") as opened:
            while at < min(end, start + size):
                opened.seek(at - start)
                data = opened.read(min(CHUNK, end - at))
                records = find_starts(data, at)
                if len(records.starts):
                    times = RecordColumns(data, records.starts).numbers("store_timestamp")
                    if int(times.max()) >= timestamp:
                        return True
                at = next_start(
                    str(path), start, size, at + (int(records.starts[-1]) if len(records.starts) else 0) + 1
                )
    except FileNotFoundError:
        return False
    return False


def _holds_bytes(files: Sequence[Segment], at: int) -> bool:
    """Return whether a file has non-zero bytes after physical offset `at`, except its filler."""
    return any(_holds_in(path, max(at - start, 0)) for start, path, size in files if at < start + size)


def _holds_in(path: Path, begin: int) -> bool:
    try:
        with path.open("rb") as opened:
            opened.seek(begin)
            data = opened.read(CHUNK)
            if blank_at(data, 0):
                return False
            while data:
                if data.count(0) < len(data):
                    return True
                data = opened.read(CHUNK)
    except FileNotFoundError:
        pass  # deleted since it was listed
    return False


def _walk(path: Path, start: int, size: int, at: int, limit: Limit) -> tuple[int, int]:
    """Return the end of the last durable record after physical offset `at`, and the kind of the bytes that follow:
    FILLED for the file's filler, LIMITED for a record that is not durable, otherwise BROKEN."""
    file = os.open(path, os.O_RDONLY)
    try:
        want = CHUNK
        while at < start + size:
            data = os.pread(file, min(want, start + size - at), at - start)
            starts, end = whole_chain(data, at)
            if not len(starts):
                claimed = int.from_bytes(data[:4], "big")
                proven = data[4:7] == b"\xda\xa3\x20" and int.from_bytes(data[28:36], "big") == at
                if not proven or not len(data) < claimed <= start + size - at:
                    return at, FILLED if blank_at(data, 0) else BROKEN
                want = claimed
                continue
            if not limit.whole:
                records = RecordColumns(data, starts)
                offsets, times = records.numbers("physical_offset"), records.numbers("store_timestamp")
                beyond = np.flatnonzero((offsets >= limit.offset) & (times > limit.timestamp))
                if len(beyond):
                    return int(offsets[beyond[0]]), LIMITED
            at, want = at + end, CHUNK
        return at, FILLED
    finally:
        os.close(file)


def whole_chain(data: bytes, base: int) -> tuple[Ints, int]:
    """Return the consecutive records starting at byte 0, and the end of the last one."""
    found = find_starts(data, base)
    starts = found.starts
    if not len(starts) or starts[0] != 0:
        return np.empty(0, np.int64), 0
    if found.holes:
        end = found.holes[0][0]
        starts = starts[starts < end]
        return starts, end
    return starts, int(starts[-1]) + int.from_bytes(data[int(starts[-1]) : int(starts[-1]) + 4], "big")


def next_start(path: str, start: int, size: int, at: int) -> int:
    """Return the first record at or after physical offset `at` in a file, or the file's end if there is none."""
    file = os.open(path, os.O_RDONLY)
    try:
        want = CHUNK
        while at < start + size:
            data = os.pread(file, min(want, start + size - at), at - start)
            found = find_starts(data, at)
            if len(found.starts):
                return at + int(found.starts[0])
            if found.cut >= 0:
                claimed = int.from_bytes(data[found.cut : found.cut + 4], "big")
                if found.cut + claimed > len(data) and at + found.cut + claimed <= start + size:
                    at, want = at + found.cut, max(CHUNK, claimed)
                    continue
            after = at + max(len(data) - 64, 1) if data else start + size
            at = max(after, start + next_data(file, after - start) - 64)
        return start + size
    finally:
        os.close(file)
