"""A pull at store level: from a queue offset to whole records, with RocketMQ's statuses and limits.

The rules are DefaultMessageStore.getMessage's. Units are scanned first; records that lie side by side in the log
become one read. Nothing here waits for the disk: what is not in memory comes back as `cold`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from bolide.layout.errors import LayoutError
from bolide.layout.ext_unit import ExtUnit, is_ext_address
from bolide.layout.queue_unit import UNIT_SIZE
from bolide.layout.record import BLANK_SIZE, is_good, properties_at
from bolide.store.commit_log import CommitLog
from bolide.store.consume_queue import ConsumeQueue
from bolide.store.consume_queue_ext import ConsumeQueueExt
from bolide.store.errors import StoreDamaged
from bolide.store.options import StoreOptions
from bolide.store.segments import Extent
from bolide.store.unit_filter import UnitFilter

FOUND: Final = 0
NO_MATCHED_MESSAGE: Final = 1
MESSAGE_WAS_REMOVING: Final = 2
OFFSET_FOUND_NULL: Final = 3
OFFSET_OVERFLOW_BADLY: Final = 4
OFFSET_OVERFLOW_ONE: Final = 5
OFFSET_TOO_SMALL: Final = 6
NO_MATCHED_LOGIC_QUEUE: Final = 7
NO_MESSAGE_IN_QUEUE: Final = 8
OFFSET_RESET: Final = 9

STATUS_NAMES: Final = (
    "FOUND",
    "NO_MATCHED_MESSAGE",
    "MESSAGE_WAS_REMOVING",
    "OFFSET_FOUND_NULL",
    "OFFSET_OVERFLOW_BADLY",
    "OFFSET_OVERFLOW_ONE",
    "OFFSET_TOO_SMALL",
    "NO_MATCHED_LOGIC_QUEUE",
    "NO_MESSAGE_IN_QUEUE",
    "OFFSET_RESET",
)
"""Java's names by number, for the remark of an answer."""

MAX_PULL_BYTES: Final = 128 * 1024 * 1024
_FIRST_UNITS: Final = 33
_NEXT_UNITS: Final = 256
_WARM_UNITS: Final = 1024
_MAX_EXTENTS: Final = 256
_NO_SKIP: Final = -1
_GAP: Final = 16 * 1024
"""Records of other queues this long, in bytes, are read along: cheaper than another call to the kernel."""
_SPAN: Final = 256 * 1024
_WINDOW: Final = 64 * 1024
_LARGE: Final = 16 * 1024
"""Records of this size, in bytes, are handed on as views of what was read with them, smaller ones are copied out of it:
one buffer is cheaper for the socket than many, and keeps nothing in memory that is not sent."""
_LOOK: Final = 8
"""Records checked by a predicate between two looks at the clock."""


def status_name(status: int) -> str:
    """Java's name of a status."""
    return STATUS_NAMES[status]


@final
class Wanted:
    """Which records of a queue are read; None takes every one.

    tag_codes: tags codes of the unit; predicate: of the record's raw properties; units: what a filter bitmap surely
    leaves out; enough: ends the search early, so that the next read continues it.
    """

    def __init__(
        self,
        tag_codes: set[int] | None = None,
        predicate: Callable[[bytes], bool] | None = None,
        units: UnitFilter | None = None,
        enough: Callable[[], bool] | None = None,
    ) -> None:
        self.tag_codes: set[int] | None = tag_codes
        self.predicate: Callable[[bytes], bool] | None = predicate
        self.units: UnitFilter | None = units
        self.enough: Callable[[], bool] | None = enough


EVERY_RECORD: Final = Wanted()


@final
class ReadResult:
    """What a pull found. With `cold` not empty nothing else counts: load the extents, then read again."""

    def __init__(self, status: i64, next_begin_offset: i64, min_offset: i64, max_offset: i64) -> None:
        self.status: i64 = status
        self.next_begin_offset: i64 = next_begin_offset
        """Where the client continues; corrected if its offset was wrong (a slave returns the old one then)."""
        self.min_offset: i64 = min_offset
        self.max_offset: i64 = max_offset
        self.buffers: list[bytes | memoryview] = []
        """Whole records, in the order of the queue; one buffer may hold several. What lay alone, and large records, are
        what `Files` read, or views into it; small records that lay among others are copied together."""
        self.size: i64 = 0
        self.message_count: i64 = 0
        self.last_physical_offset: i64 = 0
        """Physical offset of the last unit scanned, matching or not."""
        self.suggest_slave = False
        """True when the reader is so far behind the end of the log that a slave should serve it."""
        self.cold: list[Extent] = []


@final
class QueueReader:
    """Pulls from the queues of one store, within the limits of its options."""

    def __init__(self, log: CommitLog, options: StoreOptions, memory_bytes: int = 0) -> None:
        self.log = log
        self._memory: i64 = memory_bytes * options.access_message_in_memory_max_ratio // 100
        if self._memory <= 0:
            self._memory = 1 << 62
        self._bytes_in_memory: i64 = options.max_transfer_bytes_on_message_in_memory
        self._count_in_memory: i64 = options.max_transfer_count_on_message_in_memory
        self._bytes_on_disk: i64 = options.max_transfer_bytes_on_message_in_disk
        self._count_on_disk: i64 = options.max_transfer_count_on_message_in_disk
        self._filter_bytes: i64 = options.max_filter_message_size

    def read(
        self,
        queue: ConsumeQueue | None,
        offset: i64,
        max_count: i64,
        max_bytes: i64,
        tag_codes: set[int] | None,
        predicate: Callable[[bytes], bool] | None,
        units: UnitFilter | None = None,
        enough: Callable[[], bool] | None = None,
    ) -> ReadResult:
        """Records of `queue` from a queue offset on.

        `tag_codes` are tag hashes of which a unit's must be one (None: every unit), `units` looks at filter bitmaps;
        `predicate` then decides on the record's raw properties; once `enough` says so, asked after the first and every
        eighth, the read ends with what it has, at least one record further. A queue nobody ever put into reads like an
        empty one, as Java creates it on the spot.
        """
        if queue is None:
            return ReadResult(NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        low = queue.min_offset
        high = queue.max_offset
        if high == 0:
            return ReadResult(NO_MESSAGE_IN_QUEUE, 0, low, high)
        if offset < low:
            return ReadResult(OFFSET_TOO_SMALL, low, low, high)
        if offset == high:
            return ReadResult(OFFSET_OVERFLOW_ONE, offset, low, high)
        if offset > high:
            return ReadResult(OFFSET_OVERFLOW_BADLY, high, low, high)
        result = ReadResult(NO_MATCHED_MESSAGE, offset, low, high)
        scan = _UnitScan(self.log, queue, tag_codes, predicate, result)
        if units is not None and queue.ext is not None:
            scan.units = units
        scan.enough = enough
        self._scan(scan, offset, max_count, min(max(max_bytes, 100), MAX_PULL_BYTES))
        if not result.cold:
            scan.collect()
        result.suggest_slave = scan.log_end - result.last_physical_offset > self._memory
        return result

    def _scan(self, scan: _UnitScan, offset: i64, max_count: i64, max_bytes: i64) -> None:
        queue = scan.queue
        result = scan.result
        # Java never scans past the file in which it begins, nor past this many bytes of units.
        limit = (max(self._filter_bytes, max_count * UNIT_SIZE) + UNIT_SIZE - 1) // UNIT_SIZE
        end: i64 = min(queue.max_offset, queue.next_file(offset), offset + limit)
        at = offset
        units: i64 = min(max_count + 1, _FIRST_UNITS)
        while at < end:
            data = queue.units(at, min(units, end - at))
            if data is None:
                result.cold.append(queue.extent(at, min(_WARM_UNITS, end - at)))
                return
            count: i64 = len(data) // UNIT_SIZE
            if count == 0:
                if result.message_count == 0:
                    result.status = OFFSET_FOUND_NULL
                    result.next_begin_offset = queue.next_file(at)
                return
            i: i64 = 0
            while i < count:
                physical_offset = read_i64_be(data, i * UNIT_SIZE)
                size: i64 = i64(read_i32_be(data, i * UNIT_SIZE + 8))
                if self._is_full(result, size, scan.log_end - physical_offset, max_count, max_bytes):
                    return
                result.last_physical_offset = physical_offset
                result.next_begin_offset = at + i + 1
                scan.take(physical_offset, size, read_i64_be(data, i * UNIT_SIZE + 12))
                if len(result.cold) >= _MAX_EXTENTS or scan.ended:
                    return
                i += 1
            at += count
            units = _NEXT_UNITS

    def _is_full(self, result: ReadResult, size: i64, distance: i64, max_count: i64, max_bytes: i64) -> bool:
        """Java's isTheBatchFull: the first record always fits."""
        total = result.size
        count = result.message_count
        if total == 0 or count == 0:
            return False
        if count + 1 > max_count or total + size > max_bytes:
            return True
        if distance <= self._memory:
            return total + size > self._bytes_in_memory or count > self._count_in_memory - 1
        return total + size > self._bytes_on_disk or count > self._count_on_disk - 1


@final
class _UnitScan:
    """The units one read goes through, and the runs of records it took."""

    def __init__(
        self,
        log: CommitLog,
        queue: ConsumeQueue,
        tag_codes: set[int] | None,
        predicate: Callable[[bytes], bool] | None,
        result: ReadResult,
    ) -> None:
        self.log = log
        self.queue = queue
        self.tag_codes: set[int] | None = tag_codes
        self.predicate: Callable[[bytes], bool] | None = predicate
        self.units: UnitFilter | None = None
        self.enough: Callable[[], bool] | None = None
        self.ended = False
        self.result = result
        self.log_end: i64 = log.written_offset
        self.log_start: i64 = log.segments.min_offset
        self._skip_below: i64 = _NO_SKIP
        self._run_at: i64 = -1
        self._run_size: i64 = 0
        self._starts: list[int] = []
        self._sizes: list[int] = []
        self._window: bytes = b""
        self._window_at: i64 = 0
        self._checked: i64 = 0

    def take(self, physical_offset: i64, size: i64, tags_code: i64) -> None:
        """Look at one unit: leave it, or add its record."""
        result = self.result
        if physical_offset < self._skip_below:
            return  # its file was missing a moment ago
        if self.tag_codes is not None and not self._tag_matches(tags_code, self.tag_codes):
            return
        if self.units is not None and not self._bitmap_passes(tags_code, self.units):
            return
        segment = self.log.segment_size
        if (
            physical_offset < self.log_start
            or physical_offset + size > self.log_end
            or physical_offset % segment + size > segment
        ):
            if result.message_count == 0:
                result.status = MESSAGE_WAS_REMOVING
            self._skip_below = physical_offset - physical_offset % segment + segment
            return
        if self.predicate is not None:
            if not self._record_matches(physical_offset, size, self.predicate):
                if result.message_count == 0:
                    result.status = NO_MATCHED_MESSAGE
                return
        elif physical_offset == self._run_at + self._run_size:
            self._run_size += size
        else:
            self._end_run()
            self._run_at = physical_offset
            self._run_size = size
        result.size += size
        result.message_count += 1
        result.status = FOUND
        self._skip_below = _NO_SKIP

    def _tag_matches(self, tags_code: i64, wanted: set[int]) -> bool:
        code = tags_code
        ext = self.queue.ext
        if ext is not None and is_ext_address(tags_code):
            if not ext.is_warm(tags_code):
                self._add_cold(ext.extent(tags_code))
                return False
            unit = _ext_unit(ext, tags_code)
            if unit is None:
                return True  # as Java: what cannot be told apart is delivered, the client filters again
            code = unit.tags_code
        code = code & 0xFFFFFFFF
        if code >= 0x80000000:
            code -= 0x100000000
        return int(code) in wanted

    def _bitmap_passes(self, tags_code: i64, units: UnitFilter) -> bool:
        ext = self.queue.ext
        if ext is None or not is_ext_address(tags_code):
            return True
        if not ext.is_warm(tags_code):
            self._add_cold(ext.extent(tags_code))
            return False
        unit = _ext_unit(ext, tags_code)
        return unit is None or units.passes(int(unit.store_timestamp), unit.bitmap)

    def _record_matches(self, physical_offset: i64, size: i64, predicate: Callable[[bytes], bool]) -> bool:
        if not self._bring(physical_offset, size):
            # Go on through the units, to name everything this read will want at once.
            self._add_cold(self.log.segments.extent(physical_offset, size))
            return False
        data = self._window
        at = physical_offset - self._window_at
        if at + size > len(data) or size < BLANK_SIZE or not is_good(data, at, at + size, False):
            return False
        passes = predicate(properties_at(data, at))
        if self.enough is not None and self._checked % _LOOK == 0:
            self.ended = self.enough()
        self._checked += 1
        if passes:
            self.result.buffers.append(data if size == i64(len(data)) else data[at : at + size])
        return passes

    def _bring(self, physical_offset: i64, size: i64) -> bool:
        """Have one record in the window; False when it is cold. Where records lie close together, ever more of the log
        is read at once."""
        at = physical_offset - self._window_at
        end: i64 = len(self._window)
        if at >= 0 and at + size <= end:
            return True
        segments = self.log.segments
        want = size
        if end > 0 and at >= 0 and at - end <= _GAP:
            segment = self.log.segment_size
            room: i64 = min(segment - physical_offset % segment, self.log_end - physical_offset)
            want = min(max(size, min(2 * end, _WINDOW)), room)
        data = segments.read_warm(physical_offset, want)
        if data is None and want > size:
            data = segments.read_warm(physical_offset, size)
        self._window = data if data is not None else b""
        self._window_at = physical_offset
        return data is not None

    def _add_cold(self, extent: Extent) -> None:
        cold = self.result.cold
        if cold:
            last = cold[-1]
            if last.path == extent.path and last.offset <= extent.offset <= last.offset + last.size:
                last.size = max(last.size, extent.offset + extent.size - last.offset)
                return
        cold.append(extent)

    def _end_run(self) -> None:
        if self._run_size > 0:
            self._starts.append(int(self._run_at))
            self._sizes.append(int(self._run_size))
            self._run_size = 0

    def collect(self) -> None:
        """Read the runs into the result's buffers; those not in memory become its `cold`."""
        self._end_run()
        segment = self.log.segment_size
        count = len(self._starts)
        first = 0
        while first < count:
            begin: i64 = self._starts[first]
            end: i64 = begin + self._sizes[first]
            after = first + 1
            while after < count:
                at: i64 = self._starts[after]
                stop: i64 = at + self._sizes[after]
                if at < end or at - end > _GAP or stop - begin > _SPAN or at // segment != begin // segment:
                    break
                end = stop
                after += 1
            self._read_span(first, after, begin, end)
            first = after
        buffers = self.result.buffers
        if len(buffers) > 1 and self.result.size < _LARGE * len(buffers):
            self.result.buffers = [b"".join(buffers)]

    def _read_span(self, first: int, after: int, begin: i64, end: i64) -> None:
        """Read the runs from `first` to before `after`, which lie close together, by one call."""
        segments = self.log.segments
        data = segments.read_warm(begin, end - begin)
        if data is None:
            self._add_cold(segments.extent(begin, end - begin))
            return
        if len(data) < end - begin:
            raise StoreDamaged(
                f"{segments.path_at(begin)} is shorter than the log says: {len(data)} of {end - begin} bytes at offset "
                f"{begin} of the log; stop the broker and restore the file"
            )
        buffers = self.result.buffers
        if after == first + 1:
            buffers.append(data)
            return
        wanted: i64 = 0
        for run in range(first, after):
            wanted += self._sizes[run]
        if wanted >= _LARGE * (after - first):
            view = memoryview(data)
            while first < after:
                at = self._starts[first] - int(begin)
                buffers.append(view[at : at + self._sizes[first]])
                first += 1
            return
        while first < after:
            within: i64 = self._starts[first] - begin
            buffers.append(data[within : within + self._sizes[first]])
            first += 1


def _ext_unit(ext: ConsumeQueueExt, address: i64) -> ExtUnit | None:
    try:
        return ext.unit(address)
    except LayoutError:
        return None
