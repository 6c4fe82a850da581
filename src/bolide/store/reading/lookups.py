"""Reads of a store: pulls, single records, queue offsets, times, keys. Does not change the store.

`MessageStore` extends `Lookups`, which needs only the log, the queues and the index. It is a base class, so that a pull
needs no additional call. The import contract keeps this package below `message_store`, so reads cannot call writes.
"""

from __future__ import annotations

from librt.strings import read_i32_be
from mypy_extensions import i64

from bolide.layout.errors import LayoutError, RecordError
from bolide.layout.ext_unit import is_ext_address
from bolide.layout.record import BLANK_SIZE, Record, decode_record
from bolide.store.disk.segments import Extent
from bolide.store.index.index_service import IndexService
from bolide.store.log.commit_log import CommitLog
from bolide.store.log.flush_rules import PAGE
from bolide.store.options import StoreOptions
from bolide.store.queues.consume_queues import ConsumeQueues
from bolide.store.reading import query, search
from bolide.store.reading.intact import check_if_read, checked, unreadable
from bolide.store.reading.query import QueryResult
from bolide.store.reading.read import QueueReader
from bolide.store.reading.read_result import EVERY_RECORD, ReadResult, Wanted


class Lookups:
    """Reads one store. Queue offsets count messages, physical offsets are bytes of the log, times are ms."""

    def __init__(
        self, log: CommitLog, queues: ConsumeQueues, index: IndexService, options: StoreOptions, memory_bytes: int = 0
    ) -> None:
        self.log = log
        self.queues = queues
        self.index = index
        self.reader = QueueReader(log, options, memory_bytes)
        self._bulk_reader = QueueReader(log, options.for_bulk_pulls(), memory_bytes)
        self._index_readable: bool = options.index_file_read_enable
        self._in_memory: i64 = memory_bytes * options.access_message_in_memory_max_ratio // 100

    # -- queues --

    def max_queue_offset(self, topic: str, queue_id: int) -> i64:
        """Return the offset after the newest readable message, or 0 for an unknown queue."""
        queue = self.queues.get(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    def has_messages(self, topic: str) -> bool:
        """Return whether a queue of the topic has a message that is still in the log."""
        return self.has_messages_after(topic, -1)

    def has_messages_after(self, topic: str, physical_offset: int) -> bool:
        """Return whether a queue of the topic has, or may have, a message that ends after this offset of the log."""
        return any(
            not 0 <= queue.max_physical_offset <= physical_offset
            for queue_id in self.queues.queue_ids(topic)
            if self.min_queue_offset(topic, queue_id) < self.max_queue_offset(topic, queue_id)
            if (queue := self.queues.get(topic, queue_id)) is not None
        )

    def min_queue_offset(self, topic: str, queue_id: int) -> i64:
        """Return the offset of the oldest message that is still in the log, or 0 for an unknown queue."""
        queue = self.queues.get(topic, queue_id)
        return queue.min_offset if queue is not None else 0

    def queue_ids(self, topic: str) -> list[int]:
        """Return the queues of a topic that contain or contained messages."""
        return self.queues.queue_ids(topic)

    def topics_in_queues(self) -> list[str]:
        """Return the topics that have a queue."""
        return self.queues.topics()

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: i64,
        *,
        max_count: i64,
        max_bytes: i64,
        wanted: Wanted = EVERY_RECORD,
    ) -> ReadResult:
        """Return complete records of a queue, starting at a queue offset (see `QueueReader.read`). Never waits for the
        disk."""
        queue = self.queues.get(topic, queue_id)
        reader = self._bulk_reader if wanted.bulk else self.reader
        return reader.read(
            queue,
            offset,
            max_count,
            max_bytes,
            wanted.tag_codes,
            wanted.predicate,
            wanted.units,
            wanted.enough,
        )

    def units(self, topic: str, queue_id: int, offset: i64, max_count: i64) -> list[tuple[int, int, int]]:
        """Return (physical offset, size, tags code or ext address) of units, starting at an offset. May block on the
        disk."""
        queue = self.queues.get(topic, queue_id)
        found: list[tuple[int, int, int]] = []
        if queue is None:
            return found
        stop: i64 = min(offset + max_count, queue.max_offset)
        at: i64 = max(offset, queue.min_offset)
        while at < stop:
            unit = queue.unit(at)
            if unit is None:
                break
            found.append(unit)
            at += 1
        return found

    def tags_code(self, topic: str, queue_id: int, code: i64) -> i64:
        """Return the tags code for the field of a unit, which may be the address of an extension unit. Return -1 if the
        extension unit is missing or damaged."""
        if not is_ext_address(code):
            return code
        queue = self.queues.get(topic, queue_id)
        try:
            unit = queue.ext.unit(code) if queue is not None and queue.ext is not None else None
        except LayoutError:
            unit = None
        return -1 if unit is None else unit.tags_code

    def in_memory(self, topic: str, queue_id: int, offset: i64) -> bool:
        """Return whether the message at a queue offset is assumed to be in memory, because it is near the end of the
        log."""
        queue = self.queues.get(topic, queue_id)
        unit = queue.unit(offset) if queue is not None else None
        if unit is None or unit[0] < self.log.segments.min_offset:
            return False
        return self._in_memory <= 0 or self.log.written_offset - unit[0] <= self._in_memory

    # -- the log --

    def min_physical_offset(self) -> i64:
        """Return the start of the log."""
        return self.log.segments.min_offset

    def record_bytes(self, physical_offset: i64, size: i64 = 0) -> bytes | None:
        """Return the bytes of the record at an offset, or None. May block on the disk. Raises `RecordDamaged`."""
        record = self.intact_record(physical_offset, size)
        return self.log.record_bytes(physical_offset, record.total_size) if record is not None else None

    def intact_record(self, physical_offset: i64, size: i64 = 0) -> Record | None:
        """Return the record at an offset, or None. Raises `RecordDamaged` if its body does not match its CRC, or if its
        `size` is known and the log has no record there that can be decoded."""
        record = self.record_at(physical_offset, size)
        if record is not None:
            return checked(record, self.log)
        if size > 0 and self.log.segments.min_offset <= physical_offset <= self.log.written_offset - size:
            raise unreadable(physical_offset, self.log)
        return None

    def check(self, record: Record) -> None:
        """Raise `RecordDamaged` if this record of the log may come from the disk and does not match its CRC."""
        check_if_read(record, self.log)

    def record_at(self, physical_offset: i64, size: i64 = 0) -> Record | None:
        """Return the record at an offset, or None. Its body is not checked. May block on the disk."""
        data = self.log.record_bytes(physical_offset, size)
        if not data:
            return None
        try:
            record = decode_record(data, 0)
        except RecordError:
            return None
        return record if record.physical_offset == physical_offset else None

    def cold_extent(self, physical_offset: i64, size: i64) -> Extent | None:
        """Return the extent of the record at an offset, or None if the record is in memory or does not exist."""
        if self.log.segments.read_warm(physical_offset, size) is None:
            return self.log.segments.extent(physical_offset, size)
        return None

    def cold_record(self, physical_offset: i64, size: i64 = 0) -> Extent | None:
        """Return the extent that `record_at` would wait for, or None if it would not wait. Call this again once the
        extent is loaded: without `size`, the first extent contains only the length of the record."""
        log = self.log
        if physical_offset < log.segments.min_offset or physical_offset + BLANK_SIZE > log.written_offset:
            return None
        room = log.segment_size - physical_offset % log.segment_size
        if size <= 0:
            head = log.segments.read_warm(physical_offset, 4)
            if head is None:
                return log.segments.extent(physical_offset, min(PAGE, room))
            size = i64(read_i32_be(head, 0)) if len(head) == 4 else 0
        if size <= 0 or size > room or physical_offset + size > log.written_offset:
            return None
        return self.cold_extent(physical_offset, size)

    # -- times and keys --

    def store_time_at(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Return the store time of the message at a queue offset, or -1 if there is none. May block on the disk."""
        return search.store_time_at(self.log, self.queues.get(topic, queue_id), queue_offset)

    def earliest_store_time(self, topic: str = "", queue_id: int = -1) -> int:
        """Return the store time of the oldest message of a queue, or of the log if `topic` is empty. Return -1 if there
        is none."""
        if not topic:
            return search.record_store_time(self.log, int(self.log.segments.min_offset), 1)
        return search.earliest_store_time(self.log, self.queues.get(topic, queue_id))

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int, boundary: str = "lower") -> int:
        """Return the queue offset of a time. `boundary` is "lower" or "upper" (see `search.offset_by_time`)."""
        queue = self.queues.get(topic, queue_id)
        return search.offset_by_time(self.log, queue, timestamp, boundary.lower() == "upper")

    def query_messages(
        self, topic: str, key: str, max_count: int, begin: int, end: int, index_type: str = ""
    ) -> QueryResult:
        """Return records that may have this key, stored within [begin, end]. May block on the disk."""
        if not self._index_readable:
            return QueryResult(0, 0)
        after = self.queues.deleted.marks.get(topic, 0)
        found = query.KeyQuery(self.log, self.index)
        return found.messages(topic, key, max_count, begin=begin, end=end, index_type=index_type, after=after)
