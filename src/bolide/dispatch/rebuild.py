"""The derived files of a store, rebuilt from its CommitLog: queue units, extension units, index files.

Applies the rules of RocketMQ's ConsumeQueue.putMessagePositionInfo, ConsumeQueueExt.put, IndexService.buildIndex and
CommitLogDispatcherCalcBitMap in the order of its dispatch, so the bytes are the same as Java's.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from librt.strings import BytesWriter

from bolide.dispatch.multi import is_lmq
from bolide.dispatch.row import Dispatch, in_index, in_light_queue, in_queue, index_keys, scan_records
from bolide.layout.bloom import empty_bitmap, set_bits
from bolide.layout.ext_unit import END_OF_FILE, ext_address, ext_unit_size, fits, has_address, write_ext_unit
from bolide.layout.hashes import index_hash
from bolide.layout.index_file import IndexHeader, entry_seconds, write_entry
from bolide.layout.properties import parse_properties_bytes
from bolide.layout.queue_unit import PRE_BLANK, UNIT_SIZE, write_unit
from bolide.layout.record import BAD_SIZED, BLANK, GOOD
from bolide.layout.shape import StoreShape

_SCAN: Final = 4096


@dataclass(frozen=True)
class FilterEntry:
    """A consumer group's filter for a topic: its bits in the bitmap, and a predicate of (properties, tags)."""

    bit_positions: tuple[int, ...]
    matches: Callable[[Mapping[str, str], str], bool]


Filters = Mapping[str, Sequence[FilterEntry]]


@dataclass(frozen=True)
class Skipped:
    """A byte range of the log that was skipped or has no correct queue unit. `reason` is one sentence."""

    physical_offset: int
    size: int
    reason: str


class QueueImage:
    """The files of one queue in memory. Units start at byte `start` of their stream, extension units at byte 0."""

    def __init__(self, segment_size: int, ext_segment_size: int) -> None:
        self.start = 0
        self.max_physical_offset = -1
        self._segment_size = segment_size
        self._ext_segment_size = ext_segment_size
        self._units = BytesWriter()
        self._ext = BytesWriter()

    @property
    def end(self) -> int:
        """Byte of the stream after the last unit."""
        return self.start + len(self._units)

    def put(self, d: Dispatch, tags_code: int) -> str:
        """Add the unit of a record.

        Return "" on success, or a sentence if the unit is a duplicate (not added) or leaves a gap (added anyway).
        """
        if d.physical_offset + d.size <= self.max_physical_offset:
            return f"{d.topic} queue {d.queue_id} has a unit beyond it already"
        wanted = d.queue_offset * UNIT_SIZE
        said = ""
        if not len(self._units) and d.queue_offset:
            self.start = wanted // self._segment_size * self._segment_size
            self._units.write(PRE_BLANK * ((wanted - self.start) // UNIT_SIZE))
        if d.queue_offset and wanted < self.end:
            return f"{d.topic} queue {d.queue_id} has a unit for queue offset {d.queue_offset} already"
        if wanted != self.end:
            # Java writes it at the end anyway, so the unit's position and its record's queue offset differ.
            said = f"{d.topic} queue {d.queue_id} ends at {self.end // UNIT_SIZE}, the record says {d.queue_offset}"
        self.max_physical_offset = d.physical_offset + d.size
        write_unit(self._units, d.physical_offset, d.size, tags_code)
        return said

    def put_ext(self, d: Dispatch, bitmap: bytes) -> int:
        """Add the extension unit of a record, and return its address for the tags code of the queue unit.

        Return the record's tags code if the unit cannot have an address. It is not added then.
        """
        size = ext_unit_size(bitmap)
        at = len(self._ext)
        if not has_address(at, size):
            return d.tags_code
        if not fits(at, size, self._ext_segment_size):
            rest = self._ext_segment_size - at % self._ext_segment_size
            self._ext.write(END_OF_FILE + bytes(rest - len(END_OF_FILE)))
            at += rest
        write_ext_unit(self._ext, d.tags_code, d.store_timestamp, bitmap)
        return ext_address(at)

    def segments(self) -> list[tuple[int, bytes]]:
        """Return start and bytes of each ConsumeQueue file. The last file is as long as its data."""
        data = self._units.getvalue()
        size = self._segment_size
        return [(self.start + at, data[at : at + size]) for at in range(0, len(data), size)]

    def ext_segments(self) -> list[tuple[int, bytes]]:
        """Return start and bytes of each ConsumeQueueExt file. The last file is as long as its data."""
        data = self._ext.getvalue()
        size = self._ext_segment_size
        return [(at, data[at : at + size]) for at in range(0, len(data), size)]


class IndexImage:
    """One index file in memory."""

    def __init__(self, slots: int, limit: int, before: IndexHeader | None) -> None:
        self.header = IndexHeader()
        if before is not None:
            # Java copies these values from the previous file, and the time of the first entry is relative to them.
            self.header.begin_timestamp = self.header.end_timestamp = before.end_timestamp
            self.header.begin_physical_offset = self.header.end_physical_offset = before.end_physical_offset
        self._limit = limit
        self._slots = array("i", bytes(4 * slots))
        self._entries = BytesWriter()
        self._entries.write(bytes(20))

    @property
    def full(self) -> bool:
        """Whether the next key needs a new file."""
        return self.header.index_count >= self._limit

    def put(self, key: str, d: Dispatch) -> None:
        """Add one entry."""
        header = self.header
        key_hash = index_hash(key)
        slot = key_hash % len(self._slots)
        previous = self._slots[slot]
        number = header.index_count
        seconds = entry_seconds(header.begin_timestamp, d.store_timestamp)
        write_entry(self._entries, key_hash, d.physical_offset, seconds, previous)
        self._slots[slot] = number
        if number <= 1:
            header.begin_physical_offset = d.physical_offset
            header.begin_timestamp = d.store_timestamp
        if not previous:
            header.slot_count += 1
        header.index_count = number + 1
        header.end_physical_offset = d.physical_offset
        header.end_timestamp = d.store_timestamp

    def encode(self) -> bytes:
        """Return header, slots and used entries. The file's name is its creation time, so it may be any."""
        slots = array("i", self._slots)
        slots.byteswap()
        return self.header.encode() + slots.tobytes() + self._entries.getvalue()


class Rebuild:
    """Rebuilds derived files. Call `feed` with the log's segments in order, then read the public attributes."""

    def __init__(
        self, shape: StoreShape, filters: Filters | None = None, deleted: Mapping[str, int] | None = None
    ) -> None:
        """`deleted`: for each deleted topic (`layout.deleted_topics`), the physical offset below which its records
        belong to no queue."""
        self.queues: dict[tuple[str, int], QueueImage] = {}
        self.index_files: list[IndexImage] = []
        self.skipped: list[Skipped] = []
        self.end_offset = 0
        """Physical offset after the last good record."""
        self.records = 0
        self._shape = shape
        self._filters = filters or {}
        self._deleted = deleted or {}
        self._bitmap_bits = shape.bloom.bits

    def feed(self, start: int, data: bytes) -> None:
        """Dispatch the records of one segment that starts at physical offset `start`.

        A record with inconsistent lengths is skipped by its size. At bytes that are not a record, the rest of the
        segment is skipped. A rest that contains only zeros (the end of the log) is not reported in `skipped`.
        """
        at = 0
        while at < len(data):
            scanned = scan_records(data, at, len(data), self._shape, False, _SCAN)
            for d in scanned.dispatches:
                self.put(d)
            at = scanned.end
            if scanned.dispatches:
                self.end_offset = start + at
            if scanned.status == GOOD:
                continue
            if scanned.status == BLANK:
                return
            if scanned.status == BAD_SIZED:
                self._skip(start + at, scanned.size, "the record's parts do not add up to its size")
                at += scanned.size
                continue
            if data.count(0, at) != len(data) - at:
                self._skip(start + at, len(data) - at, "there is no record here, so the rest of the segment is left")
            return

    def put(self, d: Dispatch) -> None:
        """Dispatch one record."""
        self.records += 1
        if in_queue(d):
            self._put_queue(d)
            for light in d.multi or ():
                self._put_queue(in_light_queue(d, light))
        if self._shape.index_enabled:
            self._put_index(d)

    def _put_queue(self, d: Dispatch) -> None:
        if d.physical_offset < self._deleted.get(d.topic, 0):
            return
        shape = self._shape
        queue = self.queues.get((d.topic, d.queue_id))
        if queue is None:
            queue = QueueImage(shape.consume_queue_segment_size, shape.consume_queue_ext_segment_size)
            self.queues[d.topic, d.queue_id] = queue
        tags_code = int(d.tags_code)
        if shape.enable_consume_queue_ext and not is_lmq(d.topic):
            tags_code = queue.put_ext(d, self._bitmap(d))
        said = queue.put(d, tags_code)
        if said:
            self._skip(d.physical_offset, d.size, said)

    def _bitmap(self, d: Dispatch) -> bytes:
        if not self._shape.enable_calc_filter_bit_map:
            return b""
        return filter_bitmap(d, self._filters.get(d.topic, ()), self._bitmap_bits)

    def _put_index(self, d: Dispatch) -> None:
        # Java requests the file before it reads the record, so a record without keys may also create a file.
        file = self._index_file()
        if d.physical_offset < file.header.end_physical_offset or not in_index(d):
            return
        for key in index_keys(d.topic, d.uniq_key, d.keys, d.tags, self._shape.tags_in_index):
            file = self._index_file()
            file.put(key, d)

    def _index_file(self) -> IndexImage:
        last = self.index_files[-1] if self.index_files else None
        if last is not None and not last.full:
            return last
        new = IndexImage(self._shape.index_slots, self._shape.index_entries, last.header if last else None)
        self.index_files.append(new)
        return new

    def _skip(self, physical_offset: int, size: int, reason: str) -> None:
        self.skipped.append(Skipped(int(physical_offset), int(size), reason))


def filter_bitmap(d: Dispatch, filters: Sequence[FilterEntry], bits: int) -> bytes:
    """Return the bitmap of a record with the bits of every matching filter, or b"" if the topic has no filter."""
    if not filters:
        return b""
    properties = parse_properties_bytes(d.properties)
    bitmap = empty_bitmap(bits)
    for entry in filters:
        if entry.matches(properties, d.tags):
            set_bits(bitmap, entry.bit_positions)
    return bytes(bitmap)


def rebuild(
    segments: Iterable[tuple[int, bytes]],
    shape: StoreShape,
    filters: Filters | None = None,
    deleted: Mapping[str, int] | None = None,
) -> Rebuild:
    """Rebuild from (start offset, bytes) of each CommitLog segment, in order. `deleted` is as for `Rebuild`."""
    result = Rebuild(shape, filters, deleted)
    for start, data in segments:
        result.feed(start, data)
    return result
