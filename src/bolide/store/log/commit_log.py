"""The commit log: records are appended to a batch, each batch is one write, and writes are synced as a group.

Format and rules are RocketMQ's CommitLog. `flushed_offset` <= `written_offset` <= `end_offset`: bytes below the first
survive a power failure, bytes below the second survive a process crash, and later bytes exist only in this object.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be
from mypy_extensions import i64

from bolide.dispatch.row import Dispatch
from bolide.layout.broker_message import BrokerMessage, topic_fits
from bolide.layout.delay import delivery_time
from bolide.layout.limits import MAX_PROPERTIES_LENGTH, MAX_TOPIC_LENGTH
from bolide.layout.names import SCHEDULE_TOPIC
from bolide.layout.record import BLANK_SIZE, encode_blank, encode_record, record_size
from bolide.layout.record_crc import CRC_SIZE, crc_mark, without_crc
from bolide.layout.shape import StoreShape
from bolide.store.disk.files import FileFailed, Files
from bolide.store.disk.segments import HandleCache, SegmentList
from bolide.store.errors import MessageIllegal
from bolide.store.log.failed_write import FailedWrite
from bolide.store.log.files_ahead import FilesAhead
from bolide.store.log.flush_rules import FlushRules
from bolide.store.log.log_tail import LogTail
from bolide.store.log.times import StoreTimes
from bolide.store.options import StoreOptions

RECORD_ALLOWANCE: Final = 64 * 1024
"""Maximum size of a record beyond maxMessageSize."""
MAX_AHEAD_MS: Final = 1000
"""Store times do not decrease unless they are ahead of the wall clock by more than this."""
_KEEP_BATCH: Final = 4 * 1024 * 1024


@final
class CommitLog:
    """The log of one store. Offsets are physical offsets, timestamps ms since the epoch. `now` never jumps, but store
    times are wall clock times (see `store.log.times`)."""

    def __init__(
        self, files: Files, folder: str, shape: StoreShape, options: StoreOptions, handles: HandleCache
    ) -> None:
        self.files = files
        self.handles = handles
        self.segments = SegmentList(files, folder, shape.commit_log_segment_size, handles, True)
        self.segment_size: i64 = shape.commit_log_segment_size
        self.max_record_size: i64 = options.max_message_size + RECORD_ALLOWANCE
        self.max_message_size: i64 = options.max_message_size
        self.delay_levels_ms: tuple[int, ...] = shape.delay_levels_ms
        self.append_crc: bool = shape.append_property_crc
        self.sync_flush: bool = options.sync_flush

        self.end_offset: i64 = 0
        self.written_offset: i64 = 0
        self.flushed_offset: i64 = 0
        self.last_store_timestamp: i64 = 0
        self.times = StoreTimes()
        self.check_from: i64 = 0
        """Start of a record that is followed by at least the bytes that the next start must check, if the log is that
        long. `next_check_from` is its next value. A clean stop stores both."""
        self.next_check_from: i64 = 0
        self.memory_from: i64 = 0
        """Offset above which the page cache contains the log as this process wrote it; see `checks_below`."""
        self.evictions: i64 = 0
        """Number of times that a reader found bytes evicted from the page cache."""
        self.damaged: i64 = 0
        """Number of reads and replicated records that did not match a CRC."""
        self.flushed_timestamp: i64 = 0
        """Store time of the newest record known to be on disk (physicMsgTimestamp of the checkpoint)."""

        self.tail = LogTail(options.tail_cache_bytes)
        self.ahead = FilesAhead(self.segments)

        self._check_size: i64 = options.clean_start_check_size
        self._batch = BytesWriter()
        self._batch_start: i64 = 0
        self._before: list[bytes] = []
        """Parts that precede `_batch` in the next write: long bodies, which are not copied, and the bytes before
        them."""
        self._full: list[tuple[int, list[bytes]]] = []
        self._failed_write = FailedWrite(self.segments)
        self._syncing: list[tuple[str, int]] = []
        self._sync_timestamp: i64 = 0
        self._flush_rules = FlushRules(options)

    def start_at(self, end: i64, store_timestamp: i64, now: i64, check_from: i64 = 0, check_next: i64 = -1) -> None:
        """Set all three offsets to the synced end that recovery determined, and the offset where it started to check.

        `check_next`: offset from which the start after a clean stop may check; -1: the end.
        """
        self.check_from = check_from
        self.next_check_from = check_next if check_next >= 0 else end
        self.end_offset = self.written_offset = self.flushed_offset = self._batch_start = self.memory_from = end
        self.last_store_timestamp = self.flushed_timestamp = store_timestamp
        self._flush_rules.start_at(now)
        self.ahead.start_at(end)

    # -- appending --

    def check(self, message: BrokerMessage) -> i64:
        """Check the length of each part of a message, and return the size of its record. No other code checks them.

        Raises `MessageIllegal` if a part is too long.
        """
        body_length: i64 = len(message.body)
        if body_length > self.max_message_size:
            raise MessageIllegal(
                f"the body has {body_length} bytes, more than maxMessageSize {self.max_message_size}: send less"
            )
        properties_length: i64 = len(message.encoded_properties)
        if self.append_crc:
            message.encoded_properties = without_crc(message.encoded_properties)
            properties_length = len(message.encoded_properties) + CRC_SIZE
            if not message.encoded_properties.endswith(b"\x02"):
                properties_length += 1
        if properties_length > MAX_PROPERTIES_LENGTH:
            raise MessageIllegal(
                f"the properties have {properties_length} bytes, more than {MAX_PROPERTIES_LENGTH}: shorten them"
            )
        topic_length: i64 = len(message.topic_bytes)
        if not topic_fits(message.topic, int(topic_length)):
            raise MessageIllegal(
                f"the topic {message.topic[:40]!r} has {topic_length} bytes: 1 to {MAX_TOPIC_LENGTH} are allowed"
            )
        size: i64 = record_size(body_length, topic_length, properties_length, message.sys_flag)
        if size > self.max_record_size or size + BLANK_SIZE > self.segment_size:
            most = min(self.max_record_size, self.segment_size - BLANK_SIZE)
            raise MessageIllegal(f"the record has {size} bytes, more than {most}: send less")
        return size

    def make_room(self, size: i64) -> None:
        """Start the next file if `size` bytes and a blank record do not fit into the current one.

        Raises `DiskFull` or `FileFailed` without changes if the next file cannot be created.
        """
        within = self.end_offset % self.segment_size
        remaining = self.segment_size - within
        if within == 0:
            # The first record of a file, either of a new log or after a recovery that ended between two files.
            self.ahead.enter(self.end_offset)
            if size + BLANK_SIZE <= remaining:
                return
        if size + BLANK_SIZE <= remaining:
            return
        if size + BLANK_SIZE > self.segment_size:
            raise MessageIllegal(f"a batch of {size} bytes does not fit into a log file: send smaller batches")
        start = self.end_offset + remaining
        self.ahead.enter(start)
        # After a crash or power failure around the blank record, the next start reads zeros here, treats this as the
        # end of the log and deletes the next file. No record of that file can have been confirmed, because that
        # requires a sync of everything before it, including the blank record.
        self._batch.write(encode_blank(remaining))
        self._full.append((int(self._batch_start), self._pieces()))
        self._batch = BytesWriter()
        self._before = []
        self._batch_start = self.end_offset = start

    def append(self, message: BrokerMessage, queue_offset: i64, now: i64) -> Dispatch:
        """Encode a message at the end of the batch. The caller has called `check` and `make_room`."""
        store_timestamp = self.last_store_timestamp = self.store_time(now)
        physical_offset = self.end_offset
        if self.append_crc:
            size = self._append_with_crc(message, queue_offset)
        else:
            size = encode_record(
                self._batch,
                message,
                queue_offset=queue_offset,
                physical_offset=physical_offset,
                store_timestamp=store_timestamp,
                apart=self._before,
            )
        self.end_offset = physical_offset + size
        tags_code: i64 = message.tags_code
        if message.delay_level > 0 and message.topic == SCHEDULE_TOPIC:
            tags_code = delivery_time(self.delay_levels_ms, message.delay_level, store_timestamp)
        d = Dispatch(
            message.topic,
            queue_id=message.queue_id,
            queue_offset=queue_offset,
            physical_offset=physical_offset,
            size=size,
            tags_code=tags_code,
            store_timestamp=store_timestamp,
            sys_flag=message.sys_flag,
        )
        properties = message.properties
        d.uniq_key = properties.uniq_key
        d.keys = properties.keys
        d.tags = properties.tags
        d.prepared_transaction_offset = message.prepared_transaction_offset
        d.properties = message.encoded_properties
        return d

    def store_time(self, now: i64) -> i64:
        """Return the store time of a record that is appended now."""
        wall = now + self.times.offset
        if wall > self.last_store_timestamp or self.last_store_timestamp - wall > MAX_AHEAD_MS:
            return wall
        return self.last_store_timestamp

    def room(self) -> i64:
        """Return how many bytes of records fit into the current file, or 0 if `make_room` must run or records have a
        CRC."""
        within = self.end_offset % self.segment_size
        return 0 if within == 0 or self.append_crc else self.segment_size - within - BLANK_SIZE

    def append_encoded(self, records: bytes, store_timestamp: i64) -> None:
        """Append records that were encoded for the current `end_offset` and this store time. They must fit into
        `room`."""
        self._batch.write(records)
        self.last_store_timestamp = store_timestamp
        self.end_offset += len(records)

    def _append_with_crc(self, message: BrokerMessage, queue_offset: i64) -> int:
        """Append a record with enabledAppendPropCRC: the last 20 bytes of its properties contain a CRC of the bytes
        before."""
        properties = message.encoded_properties
        if properties and not properties.endswith(b"\x02"):
            properties += b"\x02"
        message.encoded_properties = properties + bytes(CRC_SIZE)
        w = BytesWriter()
        size = encode_record(
            w,
            message,
            queue_offset=queue_offset,
            physical_offset=self.end_offset,
            store_timestamp=self.last_store_timestamp,
        )
        covered = w.getvalue()[:-CRC_SIZE]
        mark = crc_mark(covered)
        message.encoded_properties = properties + mark
        self._batch.write(covered)
        self._batch.write(mark)
        return size

    # -- writing --

    def write_pending(self) -> None:
        """Pass all bytes appended since the last call to the kernel, in one write, or two if a file became full.

        Raises `DiskFull` or `FileFailed`. Then `end_offset` is reset to `written_offset`, later records are lost, and
        requests that wait for them must fail.
        """
        if self.end_offset == self.written_offset:
            return
        try:
            if self._failed_write.end > 0:
                self._failed_write.wipe(self.written_offset)
            for start, pieces in self._full:
                self.written_offset = self._write(start, pieces)
                if self.written_offset % self.segment_size != 0:
                    # The blank record marks the rest of the file as empty.
                    self.written_offset += self.segment_size - self.written_offset % self.segment_size
            pieces = self._pieces()
            if pieces:
                # A process crash before this line loses the batch. None of its records was acknowledged. After a power
                # failure, any part of the batch may exist. Recovery keeps the complete records at its start.
                self._write(self._batch_start, pieces)
            self.written_offset = self.end_offset
            if self._batch_start - self.next_check_from >= self._check_size:
                self.check_from = self.next_check_from
                self.next_check_from = self._batch_start
        except FileFailed:
            self._undo()
            raise
        self._next_batch()

    def ends_at(self, end: i64) -> None:
        """Set the end of the log after bytes were written without the batch, which is empty."""
        self.end_offset = self.written_offset = self._batch_start = end

    def _write(self, start: i64, pieces: list[bytes]) -> i64:
        """Pass these bytes of the log to the kernel. Return their end."""
        self.segments.write(start, pieces)
        for piece in pieces:
            self.tail.add(start, piece)
            start += len(piece)
        return start

    def _pieces(self) -> list[bytes]:
        """Return the parts of the next write."""
        data = self._batch.getvalue()
        return [*self._before, data] if data else self._before

    def _next_batch(self) -> None:
        self._full = []
        self._before = []
        self._batch_start = self.end_offset
        if len(self._batch) > _KEEP_BATCH:
            self._batch = BytesWriter()
        else:
            self._batch.truncate(0)

    def give_up_pending(self) -> None:
        """Drop the records appended since the last `write_pending`."""
        if self.end_offset != self.written_offset:
            self._undo()

    def _undo(self) -> None:
        """Drop the records that could not be written, and wipe their bytes from the file."""
        lost = self.end_offset
        self.end_offset = self.written_offset
        failed = self._failed_write
        if failed.end <= self.end_offset:  # otherwise the remains of an earlier write are unchanged
            segment_end = self.end_offset - self.end_offset % self.segment_size + self.segment_size
            failed.note(self._starts_from(self.end_offset), min(lost, segment_end))
        self._next_batch()
        try:
            failed.wipe(self.written_offset)
        except FileFailed:
            return  # the disk rejects all writes; the next write retries this first

    def _starts_from(self, offset: i64) -> list[int]:
        """Return the start offsets of the records of the write that started at this offset."""
        data = b"".join(self._pieces()) if self._batch_start == offset else b""
        for start, pieces in self._full:
            if start == offset:
                data = b"".join(pieces)
        starts: list[int] = []
        at: i64 = 0
        while at + BLANK_SIZE <= len(data):
            starts.append(int(offset + at))
            at += i64(read_i32_be(data, at))
        return starts

    # -- syncing --

    def due(self, now: i64) -> i64:
        """Return when to call `flush_target` next (ms since the epoch), or -1 if only a write can make a flush due."""
        if self.sync_flush or self.written_offset == self.flushed_offset:
            return -1
        return self._flush_rules.due()

    def flush_soon(self) -> None:
        """Include everything in the next asynchronous flush, because a caller waits for it."""
        self._flush_rules.flush_soon()

    def flush_target(self, now: i64) -> i64:
        """Return the offset to sync up to now, or -1 if nothing or too little is dirty, or a sync is in progress."""
        if self._syncing or self.written_offset == self.flushed_offset:
            return -1
        if not self.sync_flush and not self._flush_rules.wanted(self.flushed_offset, self.written_offset, now):
            return -1
        target = self.written_offset
        self._sync_timestamp = self.last_store_timestamp
        start = self.flushed_offset - self.flushed_offset % self.segment_size
        while start < target:
            path = self.segments.path_at(start)
            if path:
                # Pinned, so that the handle stays open while another thread uses it.
                self._syncing.append((path, self.handles.pin(path)))
            start += self.segment_size
        return target

    def sync(self) -> None:
        """Sync the log up to the offset of `flush_target`. The only method for another thread.

        Raises `FileFailed`. Then no byte written since the last successful sync can be trusted, and the sync is never
        retried.
        """
        for _path, handle in self._syncing:
            self.files.datasync(handle)

    def synced(self, target: i64, done: bool) -> None:
        """Called on the loop after the sync up to `target` has finished or failed."""
        for path, handle in self._syncing:
            self.handles.unpin(handle)
            if done and path:
                self.handles.synced(path)
        self._syncing = []
        if done and target > self.flushed_offset:
            self.flushed_offset = target
            self.flushed_timestamp = self._sync_timestamp

    def sync_all(self) -> None:
        """Sync all written bytes on this thread, when the store closes. Raises `FileFailed`."""
        if self.flushed_offset < self.written_offset:
            self.segments.datasync_to(self.written_offset, self.flushed_offset)
            self.flushed_offset = self.written_offset
            self.flushed_timestamp = self.last_store_timestamp

    # -- reading --

    def checks_below(self) -> i64:
        """Return the offset below which readers must compare records with their CRCs, because they may come from the
        disk.

        The tail is in memory. Bytes that this process has written are also assumed to be in memory, until a reader
        finds some of them evicted from the page cache.
        """
        tail = self.tail.begin
        return tail if 0 <= tail < self.memory_from else self.memory_from

    def evicted(self, offset: i64) -> None:
        """Record that bytes at `offset` are not in memory. The kernel will read them and some later bytes from disk."""
        self.evictions += 1
        if offset >= self.memory_from:
            self.memory_from = self.written_offset

    def view(self, offset: i64, size: i64) -> memoryview | None:
        """Return a view of bytes, which the caller must copy immediately, or None if they are not in memory."""
        view = self.tail.view(offset, size)
        return view if view is not None else self.segments.view_warm(offset, size)

    def record_bytes(self, physical_offset: i64, size: i64 = 0) -> bytes:
        """Return the bytes of the record at an offset, or b"" if there cannot be one. May block on the disk."""
        if physical_offset < self.segments.min_offset or physical_offset + BLANK_SIZE > self.written_offset:
            return b""
        if size <= 0:
            head = self.segments.read(physical_offset, 4)
            size = i64(read_i32_be(head, 0)) if len(head) == 4 else 0
        room = self.segment_size - physical_offset % self.segment_size
        if size <= 0 or size > room or physical_offset + size > self.written_offset:
            return b""
        return self.segments.read(physical_offset, size)
