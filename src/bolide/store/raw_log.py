"""The log as bytes, for replication: a master reads bytes to send, a slave appends received bytes.

A slave's records have the offsets of its master's records. They are appended unchanged, after a check of their size,
offset and CRC. The check rejects damaged records, bytes of another log, and bytes of log files of another size. Every
record that a slave reports has passed it.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from bolide.layout.record import (
    BLANK_MAGIC,
    BLANK_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    OFFSET_PHYSICAL,
    is_good,
)
from bolide.store.disk.extents import Extent
from bolide.store.disk.files import DiskFull, FileFailed, SyncFailed
from bolide.store.errors import NotTheLog, RecordDamaged, ServiceNotAvailable
from bolide.store.message_store import MessageStore
from bolide.store.reading.intact import CheckedSpans, place_of

MOST_BLANK: Final = 64 * 1024 * 1024
"""Maximum blank bytes at the end of a file. They are buffered until complete."""

_SIZE_OF_FILES: Final = "set mappedFileSizeCommitLog to the size that it has, and delete this store, whose files differ"
_DAMAGED: Final = "its log is damaged, or another one"


@final
class RawLog:
    """The log of one store. Offsets are physical offsets."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._log = store.log
        self._parts: list[bytes] = []
        """Start of an incomplete record: `_held` bytes of `_needed`, which is 0 if unknown."""
        self._at: i64 = 0
        """Physical offset of the incomplete record."""
        self._held: i64 = 0
        self._needed: i64 = 0

    @property
    def begin(self) -> i64:
        """Start of the oldest file."""
        return self._log.segments.min_offset

    @property
    def end(self) -> i64:
        """End of the log, including bytes that are not synced."""
        return self._log.written_offset

    @property
    def settled(self) -> i64:
        """Physical offset up to which the log is safe: synced with sync flush, otherwise written to the kernel.

        A master sends only safe bytes, so that no slave has bytes that the master may lose in a power failure. A slave
        reports only safe bytes, so that it never loses acknowledged ones.
        """
        return self._log.flushed_offset if self._store.options.sync_flush else self._log.written_offset

    # -- a master --

    def read(self, offset: i64, most: i64, spans: CheckedSpans | None = None) -> bytes | memoryview | Extent:
        """Return up to `most` bytes, within one file and below `settled`, or an `Extent` to load first if they are not
        in memory. Return b"" if there are none.

        With `spans`, bytes that may come from the disk end before the first record that does not match its CRC. Raises
        `RecordDamaged` if there are none before it, and `FileFailed`.
        """
        log = self._log
        size: i64 = min(most, self.settled - offset, log.segment_size - offset % log.segment_size)
        if size <= 0 or offset < log.segments.min_offset:
            return b""
        newest = log.tail.view(offset, size)
        if newest is not None:
            return newest  # immutable bytes in memory
        view = log.segments.view_warm(offset, size)
        # Copied immediately: no view of a map may outlive the read.
        data = bytes(view) if view is not None else log.segments.read_warm(offset, size)
        if data is None:
            log.evicted(offset)
            return log.segments.extent(offset, size)
        return data if spans is None or offset >= log.memory_from else spans.intact(offset, data)

    def read_cold(self, offset: i64, size: i64) -> bytes:
        """Return bytes from any number of files. Blocks on the disk. Raises `FileFailed`."""
        return self._log.segments.read(offset, size)

    # -- a slave --

    def follow(self) -> None:
        """Set slave mode: dispatch waits at unreadable records, because only the master can decide about them."""
        self._store.reput.jump_over_bad = False

    def lead(self) -> None:
        """Set master mode: drop an incomplete record, and let dispatch skip unreadable records."""
        self.forget()
        self._store.reput.jump_over_bad = True

    def forget(self) -> None:
        """Drop an incomplete record: the next connection requests it again."""
        self._parts = []
        self._held = self._needed = 0

    def cut(self, end: i64, now: int) -> None:
        """Truncate the log durably to `end`, where a record starts, and keep a copy of the rest. Blocks on the disk.

        Raises `ServiceNotAvailable` or `NotTheLog` without changes (see `LogCut.check`), and `FileFailed`: without
        changes if the copy cannot be written, otherwise the store rejects appends until a start has finished the
        truncation.
        """
        self.forget()
        store = self._store
        if end == self._log.end_offset:
            return
        if not store.writable() or store.maintenance.sync_failed:
            why = store.flags.describe() or "a sync failed"
            raise ServiceNotAvailable(f"the store {store.root} cannot be truncated: {why}")
        store.log_cut.check(int(end))
        store.log_cut.keep_copy(int(end), now)
        try:
            store.log_cut.run(int(end), now)
        except FileFailed as error:
            store.stop_writing(f"the log could not be cut at {end}: {error}")
            raise
        for tell in store.on_taken_back:
            tell(end)

    def append(self, offset: i64, data: bytes, now: int) -> None:
        """Append bytes of the master's log unchanged, across file boundaries. An incomplete record is buffered, so that
        the log always ends with a complete record.

        `offset` must be the end of the bytes received before, or the start of any file if the store has no records.
        Raises `NotTheLog` for bytes that cannot follow there, `RecordDamaged` for a record that does not match its CRC,
        `ServiceNotAvailable` and `FileFailed`. After an error, the records before `end` are appended and the remaining
        bytes are dropped.
        """
        store, log = self._store, self._log
        if not store.writable():
            raise ServiceNotAvailable(f"the store {store.root} rejects bytes: {store.flags.describe()}")
        if log.end_offset != log.written_offset:
            raise ServiceNotAvailable(f"the log of {store.root} has local appends in progress")
        if self._held == 0:
            self._at = log.end_offset
        expected = self._at + self._held
        if offset != expected:
            if expected != 0 or not log.segments.is_empty() or offset % log.segment_size != 0:
                raise NotTheLog(f"bytes for offset {offset} do not follow the log, which ends at {expected}")
            self._at = offset
        self._parts.append(data)
        self._held += len(data)
        if self._held < self._needed:
            return
        whole = data if len(self._parts) == 1 else b"".join(self._parts)
        self.forget()
        store.queues.deleted.save()
        self._note_progress()
        self._append_whole(whole, now)

    def _append_whole(self, data: bytes, now: int) -> None:
        """Append the complete records at the start of these bytes, with one write per file. Buffer the rest."""
        size = self._log.segment_size
        at: i64 = 0
        offset = self._at
        while True:
            room: i64 = size - offset % size
            stop = self._whole_until(data, at, min(at + room, len(data)), offset, room)
            if stop == at:
                break
            self._append_in_file(offset, data if at == 0 and stop == len(data) else data[at:stop], now)
            offset += stop - at
            at = stop
        self._at = offset
        if at < len(data):
            self._parts = [data[at:]]
            self._held = len(data) - at

    def _whole_until(self, data: bytes, at: i64, limit: i64, offset: i64, room: i64) -> i64:
        """Return the end of the last complete record of this file in `data`, whose byte `at` has this physical
        offset."""
        base = offset - at
        end = at + room
        first = at
        while limit - at >= BLANK_SIZE:
            total: i64 = i64(read_i32_be(data, at))
            magic: i64 = i64(read_i32_be(data, at + 4))
            crosses = total > end - at
            if magic == BLANK_MAGIC:
                if total != end - at or total > MOST_BLANK:
                    raise NotTheLog(
                        f"a file of its log ends {total} bytes after offset {base + at}, in this log after {end - at}: "
                        f"{_SIZE_OF_FILES}"
                    )
            elif (magic != MAGIC_V1 and magic != MAGIC_V2) or total < MIN_RECORD_SIZE:
                raise NotTheLog(f"its bytes at offset {base + at} are not a record: {_DAMAGED}")
            elif total > self._log.max_record_size:
                if crosses:  # a size that no setting explains
                    raise NotTheLog(f"its bytes at offset {base + at} are not a record: {_DAMAGED}")
                raise NotTheLog(
                    f"its record at offset {base + at} has {total} bytes, more than the {self._log.max_record_size} "
                    f"that this broker takes: give this broker the maxMessageSize of its master, and start it again"
                )
            elif limit - at >= OFFSET_PHYSICAL + 8 and read_i64_be(data, at + OFFSET_PHYSICAL) != base + at:
                raise NotTheLog(
                    f"its record at offset {base + at} has a different physical offset: it has a different log"
                )
            elif crosses:
                raise NotTheLog(
                    f"its record at offset {base + at} has {total} bytes, and the file of this log ends {end - at} "
                    f"bytes after that offset: {_SIZE_OF_FILES}"
                )
            if total > limit - at:
                self._needed = total
                break
            if magic != BLANK_MAGIC and not is_good(data, at, limit, True):
                if at > first:  # append the records before it
                    break
                self._log.damaged += 1
                raise RecordDamaged(
                    f"its record at offset {base + at} of the log{place_of(data, at)} is damaged and is not appended: "
                    f"run `bolide store verify` on its store"
                )
            at += total
        return at

    def _append_in_file(self, offset: i64, part: bytes, now: int) -> None:
        store, log = self._store, self._log
        if offset != log.end_offset:  # the first record of a store that starts with a later file
            log.start_at(offset, 0, now)
            store.reput.start_at(offset)
        try:
            if offset % log.segment_size == 0:
                log.ahead.enter(offset)
            # After a process crash here, each record is complete or missing, except one torn by the kernel. After a
            # power failure, any part may be missing. Recovery keeps the complete records at the start, and the master
            # has received no report of the others.
            log.segments.write(offset, [part])
        except DiskFull:
            store.maintenance.retention.write_refused(now)
            raise
        except SyncFailed as error:
            store.stop_writing(str(error))
            raise
        log.tail.add(offset, part)
        log.ends_at(offset + len(part))

    def _note_progress(self) -> None:
        """Copy the last store time from dispatch, and advance the offset from which the next clean start
        checks."""
        store, log = self._store, self._log
        log.last_store_timestamp = max(log.last_store_timestamp, store.reput.last_store_timestamp)
        if log.end_offset - log.next_check_from >= store.options.clean_start_check_size:
            log.check_from = log.next_check_from
            log.next_check_from = log.end_offset
