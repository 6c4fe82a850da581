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
from bolide.store.file_maps import MOST_BYTES
from bolide.store.options import StoreOptions
from bolide.store.read_result import (
    FOUND,
    MESSAGE_WAS_REMOVING,
    NO_MATCHED_MESSAGE,
    NO_MESSAGE_IN_QUEUE,
    OFFSET_FOUND_NULL,
    OFFSET_OVERFLOW_BADLY,
    OFFSET_OVERFLOW_ONE,
    OFFSET_TOO_SMALL,
    ReadResult,
)
from bolide.store.segments import Extent
from bolide.store.unit_filter import UnitFilter

MAX_PULL_BYTES: Final = 128 * 1024 * 1024
_FIRST_UNITS: Final = 33
_NEXT_UNITS: Final = 256
_WARM_UNITS: Final = 1024
_MAX_EXTENTS: Final = 256
_NO_SKIP: Final = -1
_GAP: Final = 16 * 1024
"""Records of other queues this long, in bytes, are read along: cheaper than another call to the kernel."""
_SPAN: Final = 256 * 1024
_VIEW_GAP: Final = 64 * 1024
"""As `_GAP`, of a view, which copies nothing between the records."""
_WINDOW: Final = 64 * 1024
_LARGE: Final = 16 * 1024
"""Records of this size, in bytes, are handed on as views of what was read with them, smaller ones are copied out of it:
one buffer is cheaper for the socket than many, and keeps nothing in memory that is not sent."""
_LOOK: Final = 8
"""Records checked by a predicate between two looks at the clock."""


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
        plain = scan.predicate is None and queue.ext is None
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
            if plain:
                if not self._scan_plain(scan, data, at, max_count, max_bytes):
                    return
                at += count
                units = _NEXT_UNITS
                continue
            i: i64 = 0
            while i < count:
                physical_offset = read_i64_be(data, i * UNIT_SIZE)
                size: i64 = i64(read_i32_be(data, i * UNIT_SIZE + 8))
                distance = scan.log_end - physical_offset
                if self._is_full(result.size, result.message_count, size, distance, max_count, max_bytes):
                    return
                result.last_physical_offset = physical_offset
                result.next_begin_offset = at + i + 1
                scan.take(physical_offset, size, read_i64_be(data, i * UNIT_SIZE + 12))
                if len(result.cold) >= _MAX_EXTENTS or scan.ended:
                    return
                i += 1
            at += count
            units = _NEXT_UNITS

    def _scan_plain(self, scan: _UnitScan, data: bytes, at: i64, max_count: i64, max_bytes: i64) -> bool:
        """What `_scan` does to units of which nothing but their tags is looked at, in one go; False at its end.

        Nearly every unit of a broker passes here: what `_is_full` and `take` say, on local variables.
        """
        result = scan.result
        wanted = scan.tag_codes
        only: i64 = -1  # of no tag: `code` below has 32 bits
        if wanted is not None and len(wanted) == 1:
            for tag in wanted:
                if -0x80000000 <= tag <= 0x7FFFFFFF:
                    only = tag & 0xFFFFFFFF
        total = result.size
        taken = result.message_count
        last_offset = result.last_physical_offset
        next_offset = result.next_begin_offset
        low = scan.log_start
        count: i64 = len(data) // UNIT_SIZE
        full = False
        i: i64 = 0
        while i < count:
            physical_offset = read_i64_be(data, i * UNIT_SIZE)
            size: i64 = i64(read_i32_be(data, i * UNIT_SIZE + 8))
            full = self._is_full(total, taken, size, scan.log_end - physical_offset, max_count, max_bytes)
            if full:
                break
            last_offset = physical_offset
            i += 1
            next_offset = at + i
            if physical_offset < scan.skip_below:
                continue
            if wanted is not None:
                code = read_i64_be(data, i * UNIT_SIZE - 8) & 0xFFFFFFFF
                if only >= 0:
                    if code != only:
                        continue
                elif not _is_one_of(code, wanted):
                    continue
            if physical_offset < low or physical_offset + size > scan.file_end or physical_offset < scan.file_start:
                if not scan.is_there(physical_offset, size, taken):
                    continue
            scan.add_run(physical_offset, size)
            scan.skip_below = _NO_SKIP
            total += size
            taken += 1
        if taken > result.message_count:
            result.status = FOUND
        result.size = total
        result.message_count = taken
        result.last_physical_offset = last_offset
        result.next_begin_offset = next_offset
        return not full

    def _is_full(self, total: i64, count: i64, size: i64, distance: i64, max_count: i64, max_bytes: i64) -> bool:
        """Java's isTheBatchFull: the first record always fits."""
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
        self.skip_below: i64 = _NO_SKIP
        """Up to here the log has no records: the file was missing a moment ago."""
        self.file_start: i64 = 0
        self.file_end: i64 = 0
        """Between these lies what is surely in the log: a file, or what of the newest one is written."""
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
        if physical_offset < self.skip_below:
            return  # its file was missing a moment ago
        if self.tag_codes is not None and not self._tag_matches(tags_code, self.tag_codes):
            return
        if self.units is not None and not self._bitmap_passes(tags_code, self.units):
            return
        if not self.is_there(physical_offset, size, result.message_count):
            return
        if self.predicate is not None:
            if not self._record_matches(physical_offset, size, self.predicate):
                if result.message_count == 0:
                    result.status = NO_MATCHED_MESSAGE
                return
        else:
            self.add_run(physical_offset, size)
        result.size += size
        result.message_count += 1
        result.status = FOUND
        self.skip_below = _NO_SKIP

    def is_there(self, physical_offset: i64, size: i64, taken: i64) -> bool:
        """Whether the log holds this record, as far as offsets tell; if not, all that is in its file is left out."""
        segment = self.log.segment_size
        start = physical_offset - physical_offset % segment
        if physical_offset < self.log_start or physical_offset + size > min(self.log_end, start + segment):
            if taken == 0:
                self.result.status = MESSAGE_WAS_REMOVING
            self.skip_below = start + segment
            return False
        self.file_start = start
        self.file_end = min(self.log_end, start + segment)
        return True

    def add_run(self, physical_offset: i64, size: i64) -> None:
        """Take a record that needs no look at its bytes."""
        if physical_offset == self._run_at + self._run_size:
            self._run_size += size
            return
        self._end_run()
        self._run_at = physical_offset
        self._run_size = size

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
        return _is_one_of(code & 0xFFFFFFFF, wanted)

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
        data: bytes | None = None
        view = self.log.view(physical_offset, want)
        if view is not None:
            data = bytes(view)
        else:
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
            after = self._close_ones(first, count, segment, _VIEW_GAP, MOST_BYTES)
            if not self._view_span(first, after):
                last = after
                while first < last:
                    after = self._close_ones(first, last, segment, _GAP, _SPAN)
                    self._read_span(first, after)
                    first = after
            first = after
        buffers = self.result.buffers
        if len(buffers) > 1 and self.result.size < _LARGE * len(buffers):
            self.result.buffers = [b"".join(buffers)]

    def _close_ones(self, first: int, last: int, segment: i64, gap: i64, most: i64) -> int:
        """Where the runs end that begin with `first` and lie close together in one file: to be read by one call."""
        begin: i64 = self._starts[first]
        end: i64 = begin + self._sizes[first]
        file_end = begin - begin % segment + segment
        after = first + 1
        while after < last:
            at: i64 = self._starts[after]
            if at < end or at - end > gap or at >= file_end:
                break
            stop: i64 = at + self._sizes[after]
            if stop - begin > most:
                break
            end = stop
            after += 1
        return after

    def _view_span(self, first: int, after: int) -> bool:
        """Copy the runs from `first` to before `after` out of a view of the log; False when there is none."""
        begin = self._starts[first]
        end = self._starts[after - 1] + self._sizes[after - 1]
        view = self.log.view(begin, end - begin)
        if view is None:
            return False
        buffers = self.result.buffers
        if after == first + 1:
            buffers.append(bytes(view))
            return True
        parts: list[memoryview] = []
        wanted: i64 = 0
        for run in range(first, after):
            within = self._starts[run] - begin
            size = self._sizes[run]
            parts.append(view[within : within + size])
            wanted += size
        if wanted >= _LARGE * (after - first):
            for part in parts:
                buffers.append(bytes(part))
        else:
            buffers.append(b"".join(parts))
        return True

    def _read_span(self, first: int, after: int) -> None:
        """Read the runs from `first` to before `after`, which lie close together, by one call."""
        segments = self.log.segments
        begin: i64 = self._starts[first]
        end: i64 = self._starts[after - 1] + self._sizes[after - 1]
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


def _is_one_of(code: i64, wanted: set[int]) -> bool:
    """Whether the lower half of a unit's tags code is one of these hashes, which have a sign."""
    return int(code if code < 0x80000000 else code - 0x100000000) in wanted


def _ext_unit(ext: ConsumeQueueExt, address: i64) -> ExtUnit | None:
    try:
        return ext.unit(address)
    except LayoutError:
        return None
