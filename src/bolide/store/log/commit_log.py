"""The commit log: records appended into a batch, the batch written by one call, the writes synced as a group.

Format and rules are RocketMQ's CommitLog. Three offsets follow each other: `flushed_offset` <= `written_offset` <=
`end_offset`. What lies below the first survives a power cut, below the second a crash of the process, and what lies
above that is only in this object.
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
"""A record may be this much longer than maxMessageSize."""
MAX_AHEAD_MS: Final = 1000
"""Store times do not go back while they are ahead of the wall clock by no more than this."""
_KEEP_BATCH: Final = 4 * 1024 * 1024


@final
class CommitLog:
    """The log of one store. Offsets are physical offsets, timestamps ms since the epoch. `now` never jumps (see
    `store.log.times`), while the store time of a record is the wall clock's."""

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
        """Where a record begins, with at least as much of the log after it as the next start is to check, if there is
        so much; `next_check_from` will be this later. A clean stop notes both."""
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
        """What comes before `_batch` in the next write: long bodies are not copied, and what precedes them."""
        self._full: list[tuple[int, list[bytes]]] = []
        self._failed_write = FailedWrite(self.segments)
        self._syncing: list[tuple[str, int]] = []
        self._sync_timestamp: i64 = 0
        self._flush_rules = FlushRules(options)

    def start_at(self, end: i64, store_timestamp: i64, now: i64, check_from: i64 = 0, check_next: i64 = -1) -> None:
        """Set all three offsets to the end that recovery found and made certain, and where it began to check.

        `check_next` is where the start after a clean stop may begin to check; -1 means at the end.
        """
        self.check_from = check_from
        self.next_check_from = check_next if check_next >= 0 else end
        self.end_offset = self.written_offset = self.flushed_offset = self._batch_start = self.memory_from = end
        self.last_store_timestamp = self.flushed_timestamp = store_timestamp
        self._flush_rules.start_at(now)
        self.ahead.start_at(end)

    # -- appending --

    def check(self, message: BrokerMessage) -> i64:
        """The size of the record of this message: the one place that limits its parts.

        Raises `MessageIllegal` when one is too long.
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
        """Begin the next file when `size` bytes and a blank do not fit into this one.

        Raises `DiskFull` or `FileFailed`, with nothing changed, when the next file cannot be made.
        """
        within = self.end_offset % self.segment_size
        remaining = self.segment_size - within
        if within == 0:
            # The first record of a file: of the whole log, or after a recovery that ended between two files.
            self.ahead.enter(self.end_offset)
            if size + BLANK_SIZE <= remaining:
                return
        if size + BLANK_SIZE <= remaining:
            return
        if size + BLANK_SIZE > self.segment_size:
            raise MessageIllegal(f"a batch of {size} bytes does not fit into a log file: send smaller batches")
        start = self.end_offset + remaining
        self.ahead.enter(start)
        # Crash of process or power around the blank: without it the next start reads zeros here, takes this for the
        # end of the log and deletes the next file. Nothing in that file can have been confirmed, for confirmation
        # of its records covers the sync of everything before them, the blank included.
        self._batch.write(encode_blank(remaining))
        self._full.append((int(self._batch_start), self._pieces()))
        self._batch = BytesWriter()
        self._before = []
        self._batch_start = self.end_offset = start

    def append(self, message: BrokerMessage, queue_offset: i64, now: i64) -> Dispatch:
        """Encode one checked message, for which room was made, at the end of the batch."""
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
        """The store time of a record that is appended now."""
        wall = now + self.times.offset
        if wall > self.last_store_timestamp or self.last_store_timestamp - wall > MAX_AHEAD_MS:
            return wall
        return self.last_store_timestamp

    def room(self) -> i64:
        """Bytes of records that fit into the file in use; 0 when `make_room` has to look, or records have a CRC."""
        within = self.end_offset % self.segment_size
        return 0 if within == 0 or self.append_crc else self.segment_size - within - BLANK_SIZE

    def append_encoded(self, records: bytes, store_timestamp: i64) -> None:
        """Add records encoded for this place with this store time; they fit into `room`."""
        self._batch.write(records)
        self.last_store_timestamp = store_timestamp
        self.end_offset += len(records)

    def _append_with_crc(self, message: BrokerMessage, queue_offset: i64) -> int:
        """enabledAppendPropCRC: the last 20 bytes of the properties hold a CRC of the record before them."""
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
        """Hand everything appended since the last call to the kernel: one write, two when a file became full.

        Raises `DiskFull` or `FileFailed`; then `end_offset` is back at `written_offset` and the records after it are
        lost, so the requests that wait for them must be told.
        """
        if self.end_offset == self.written_offset:
            return
        try:
            if self._failed_write.end > 0:
                self._failed_write.wipe(self.written_offset)
            for start, pieces in self._full:
                self.written_offset = self._write(start, pieces)
                if self.written_offset % self.segment_size != 0:
                    # The blank says that the rest of the file holds nothing.
                    self.written_offset += self.segment_size - self.written_offset % self.segment_size
            pieces = self._pieces()
            if pieces:
                # Process crash before this line: the batch is lost, and nobody was told it is safe. Power cut after
                # it: any part of the batch may be there; recovery keeps the whole records at its front.
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
        """The log was written beside the batch, which is empty: it ends here now."""
        self.end_offset = self.written_offset = self._batch_start = end

    def _write(self, start: i64, pieces: list[bytes]) -> i64:
        """Hand these bytes of the log to the kernel; returns where they end."""
        self.segments.write(start, pieces)
        for piece in pieces:
            self.tail.add(start, piece)
            start += len(piece)
        return start

    def _pieces(self) -> list[bytes]:
        """What the next write is made of."""
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
        """Forget what was appended since the last `write_pending`; it is not written."""
        if self.end_offset != self.written_offset:
            self._undo()

    def _undo(self) -> None:
        """Forget what could not be written, and wipe what of it may have reached the file."""
        lost = self.end_offset
        self.end_offset = self.written_offset
        failed = self._failed_write
        if failed.end <= self.end_offset:  # else nothing was written over what an earlier write left
            segment_end = self.end_offset - self.end_offset % self.segment_size + self.segment_size
            failed.note(self._starts_from(self.end_offset), min(lost, segment_end))
        self._next_batch()
        try:
            failed.wipe(self.written_offset)
        except FileFailed:
            return  # the disk takes nothing at all: the next write tries again first

    def _starts_from(self, offset: i64) -> list[int]:
        """Where the records begin that were to be written in one go from this offset on."""
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
        """When `flush_target` is to be asked next by the clock, ms since the epoch; -1 when only writes matter."""
        if self.sync_flush or self.written_offset == self.flushed_offset:
            return -1
        return self._flush_rules.due()

    def flush_soon(self) -> None:
        """Let the next look of the asynchronous flush take whatever there is: somebody waits for it."""
        self._flush_rules.flush_soon()

    def flush_target(self, now: i64) -> i64:
        """The offset to sync to now, -1 for none: because nothing is dirty, too little is, or a sync is under way."""
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
        """Make what `flush_target` named survive a power cut. The one method for another thread.

        Raises `FileFailed`: then nothing written since the last good sync can be trusted, and it is never retried.
        """
        for _path, handle in self._syncing:
            self.files.datasync(handle)

    def synced(self, target: i64, done: bool) -> None:
        """Back on the loop: the sync to `target` is done, or failed."""
        for path, handle in self._syncing:
            self.handles.unpin(handle)
            if done and path:
                self.handles.synced(path)
        self._syncing = []
        if done and target > self.flushed_offset:
            self.flushed_offset = target
            self.flushed_timestamp = self._sync_timestamp

    def sync_all(self) -> None:
        """Sync everything written, on this thread: the end of the store. Raises `FileFailed`."""
        if self.flushed_offset < self.written_offset:
            self.segments.datasync_to(self.written_offset, self.flushed_offset)
            self.flushed_offset = self.written_offset
            self.flushed_timestamp = self.last_store_timestamp

    # -- reading --

    def checks_below(self) -> i64:
        """Offset below which readers must compare records with their CRCs, because the bytes may come from the disk.

        Exempt are the tail in memory, and the bytes that this process has written since it started, or since a reader
        last found such bytes evicted from the page cache.
        """
        tail = self.tail.begin
        return tail if 0 <= tail < self.memory_from else self.memory_from

    def evicted(self, offset: i64) -> None:
        """Note that bytes at `offset` are not in memory: the kernel will read them, and some after them, from disk."""
        self.evictions += 1
        if offset >= self.memory_from:
            self.memory_from = self.written_offset

    def view(self, offset: i64, size: i64) -> memoryview | None:
        """A view of bytes that are in memory, to be copied from at once; None where there is none: then read them."""
        view = self.tail.view(offset, size)
        return view if view is not None else self.segments.view_warm(offset, size)

    def record_bytes(self, physical_offset: i64, size: i64 = 0) -> bytes:
        """The bytes of the record at an offset, b"" when none can be there. May wait for the disk."""
        if physical_offset < self.segments.min_offset or physical_offset + BLANK_SIZE > self.written_offset:
            return b""
        if size <= 0:
            head = self.segments.read(physical_offset, 4)
            size = i64(read_i32_be(head, 0)) if len(head) == 4 else 0
        room = self.segment_size - physical_offset % self.segment_size
        if size <= 0 or size > room or physical_offset + size > self.written_offset:
            return b""
        return self.segments.read(physical_offset, size)
