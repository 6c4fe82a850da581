"""A pull at store level: from a queue offset to complete records, with RocketMQ's statuses and limits.

The rules are DefaultMessageStore.getMessage's. Units are scanned first; contiguous records are read together. No call
waits for the disk: missing data is returned as `cold`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from bolide.layout.errors import LayoutError
from bolide.layout.ext_unit import ExtUnit, is_ext_address
from bolide.layout.queue_unit import UNIT_SIZE
from bolide.layout.record import BLANK_SIZE, is_good, properties_at
from bolide.store.errors import RecordDamaged
from bolide.store.log.commit_log import CommitLog
from bolide.store.options import StoreOptions
from bolide.store.queues.consume_queue import ConsumeQueue
from bolide.store.queues.consume_queue_ext import ConsumeQueueExt
from bolide.store.queues.unit_filter import UnitFilter
from bolide.store.reading.intact import REPAIR, count_intact, place_of
from bolide.store.reading.read_result import (
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
from bolide.store.reading.read_runs import GAP, Runs, kernel_for

if TYPE_CHECKING:
    from bolide.store.reading.read_kernel import ReadKernel

MAX_PULL_BYTES: Final = 128 * 1024 * 1024
_NEXT_UNITS: Final = 256
_WARM_UNITS: Final = 1024
_MAX_EXTENTS: Final = 256
_NO_SKIP: Final = -1
_FIRST_WINDOW: Final = 16 * 1024
_WINDOW: Final = 128 * 1024
_LOOK: Final = 8
"""Number of records checked by a predicate between two reads of the clock."""


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
        self._most_units: i64 = min(max(self._count_in_memory, self._count_on_disk) + 1, _WARM_UNITS)
        self.kernel: ReadKernel | None = kernel_for(options, self._memory)
        """The native kernel, or None to scan without it, with the same result."""

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
        """Return the intact records of `queue` from a queue offset, as found by `_read`.

        Records that may come from the disk are compared with their CRCs, once while they stay in memory. The result
        ends before the first that fails. Raises `RecordDamaged` if there is no record before that one.
        """
        result = self._read(queue, offset, max_count, max_bytes, tag_codes, predicate, units, enough)
        if queue is None or result.first_offset < 0 or result.first_offset >= self.log.checks_below() or result.cold:
            return result
        end: i64 = result.next_begin_offset
        if queue.intact.covers(offset, end, self.log.evictions):
            return result
        intact = count_intact(result.buffers)
        if intact == result.message_count:
            if intact == end - offset:
                queue.intact.extend(offset, end, self.log.evictions)
            return result
        # The same scan, limited to the intact records, finds the offset of the next pull.
        result = self._read(queue, offset, max(intact, 1), max_bytes, tag_codes, predicate, units, enough)
        if intact == 0 and not result.cold:
            self.log.damaged += 1
            at = int(result.next_begin_offset) - 1
            first = result.buffers[0] if result.buffers else b""
            raise RecordDamaged(
                f"the message at offset {at} of queue {queue.topic}:{queue.queue_id} is damaged"
                f"{place_of(bytes(first), 0)}: {REPAIR}"
            )
        return result

    def _read(
        self,
        queue: ConsumeQueue | None,
        offset: i64,
        max_count: i64,
        max_bytes: i64,
        tag_codes: set[int] | None,
        predicate: Callable[[bytes], bool] | None,
        units: UnitFilter | None,
        enough: Callable[[], bool] | None,
    ) -> ReadResult:
        """Return records of `queue`, starting at a queue offset.

        `tag_codes`: accepted tag hashes (None: all). `units` checks filter bitmaps. `predicate` then checks the
        record's raw properties. `enough` is called after the first record and then after every eighth. Once it returns
        True, the read ends with its current result, at least one record further. A queue without any unit is read like
        an empty one, because Java creates it immediately.
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
        most = min(max(max_bytes, 100), MAX_PULL_BYTES)
        kernel = self.kernel
        if kernel is not None and predicate is None and queue.ext is None:
            start, end = int(scan.log_start), int(scan.log_end)
            if kernel.begin(start, end, int(self.log.segment_size), int(max_count), int(most), tag_codes):
                scan.kernel = kernel
        self._scan(scan, offset, max_count, most)
        if not result.cold:
            if scan.kernel is not None:
                scan.runs.collect_from(scan.kernel)
            else:
                scan.runs.collect()
            result.first_offset = scan.runs.first
        result.suggest_slave = scan.log_end - result.last_physical_offset > self._memory
        return result

    def _scan(self, scan: _UnitScan, offset: i64, max_count: i64, max_bytes: i64) -> None:
        queue = scan.queue
        result = scan.result
        # Java never scans past the file in which it starts, nor past this many bytes of units.
        limit = (max(self._filter_bytes, max_count * UNIT_SIZE) + UNIT_SIZE - 1) // UNIT_SIZE
        end: i64 = min(queue.max_offset, queue.next_file(offset), offset + limit)
        plain = scan.predicate is None and queue.ext is None
        at = offset
        units: i64 = min(max_count + 1, self._most_units)
        if scan.tag_codes is not None and units < _NEXT_UNITS:
            units = _NEXT_UNITS
        while at < end:
            data = queue.units(at, min(units, end - at))
            if data is None:
                result.cold.append(queue.extent(at, min(_WARM_UNITS, end - at)))
                return
            count: i64 = len(data) // UNIT_SIZE
            if count == 0:
                scan.note()
                if result.message_count == 0:
                    result.status = OFFSET_FOUND_NULL
                    result.next_begin_offset = queue.next_file(at)
                return
            if scan.kernel is not None:
                left = scan.kernel.scan(data, int(at))
                if left < 0:
                    scan.kernel = None
                    self._scan(scan, offset, max_count, max_bytes)
                    return
                if left == 0:
                    break
            elif plain and not self._scan_plain(scan, data, at, max_count, max_bytes):
                return
            if plain:
                at += count
                units = min(max(2 * units, _NEXT_UNITS), _WARM_UNITS)
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
            units = min(max(2 * units, _NEXT_UNITS), _WARM_UNITS)
        scan.note()

    def _scan_plain(self, scan: _UnitScan, data: bytes, at: i64, max_count: i64, max_bytes: i64) -> bool:
        """Like `_scan`, in one loop, for units that are only checked for their tags. Return False if the batch is full.

        Nearly every unit of a broker is processed here: the logic of `_is_full` and `take`, on local variables.
        """
        result = scan.result
        wanted = scan.tag_codes
        only: i64 = -1  # matches no tag: `code` below has 32 bits
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
            scan.runs.add(physical_offset, size)
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
        """Return whether the batch is full, like Java's isTheBatchFull: the first record always fits."""
        if total == 0 or count == 0:
            return False
        if count + 1 > max_count or total + size > max_bytes:
            return True
        if distance <= self._memory:
            return total + size > self._bytes_in_memory or count > self._count_in_memory - 1
        return total + size > self._bytes_on_disk or count > self._count_on_disk - 1


@final
class _UnitScan:
    """The units that one read scans, and the runs of selected records."""

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
        self.runs = Runs(log, result)
        self.kernel: ReadKernel | None = None
        self.log_end: i64 = log.written_offset
        self.log_start: i64 = log.segments.min_offset
        self.skip_below: i64 = _NO_SKIP
        """Offset below which units are skipped, because this read found that the file of their records is missing."""
        self.file_start: i64 = 0
        self.file_end: i64 = 0
        """Range that is certainly in the log: a file, or the written part of the newest one."""
        self._window: bytes = b""
        self._window_at: i64 = 0
        self._checked: i64 = 0

    def take(self, physical_offset: i64, size: i64, tags_code: i64) -> None:
        """Check one unit: skip it, or add its record."""
        result = self.result
        if physical_offset < self.skip_below:
            return  # its file was found missing in this read
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
            self.runs.add(physical_offset, size)
        result.size += size
        result.message_count += 1
        result.status = FOUND
        self.skip_below = _NO_SKIP

    def note(self) -> None:
        """Copy the results of the kernel."""
        if self.kernel is None:
            return
        result = self.result
        count, size, last, after = self.kernel.found()
        result.message_count = count
        result.size = size
        result.last_physical_offset = last
        result.next_begin_offset = after
        if count > 0:
            result.status = FOUND

    def is_there(self, physical_offset: i64, size: i64, taken: i64) -> bool:
        """Return whether the record is within the log, judged by offsets. If not, skip the rest of its file."""
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

    def _tag_matches(self, tags_code: i64, wanted: set[int]) -> bool:
        code = tags_code
        ext = self.queue.ext
        if ext is not None and is_ext_address(tags_code):
            if not ext.is_warm(tags_code):
                self.runs.add_cold(ext.extent(tags_code))
                return False
            unit = _ext_unit(ext, tags_code)
            if unit is None:
                return True  # as in Java: if it cannot be checked, it is delivered, and the client filters again
            code = unit.tags_code
        return _is_one_of(code & 0xFFFFFFFF, wanted)

    def _bitmap_passes(self, tags_code: i64, units: UnitFilter) -> bool:
        ext = self.queue.ext
        if ext is None or not is_ext_address(tags_code):
            return True
        if not ext.is_warm(tags_code):
            self.runs.add_cold(ext.extent(tags_code))
            return False
        unit = _ext_unit(ext, tags_code)
        return unit is None or units.passes(int(unit.store_timestamp), unit.bitmap)

    def _record_matches(self, physical_offset: i64, size: i64, predicate: Callable[[bytes], bool]) -> bool:
        if not self._bring(physical_offset, size):
            # Continue through the units, to report all data that this read needs.
            self.log.evicted(physical_offset)
            self.runs.add_cold(self.log.segments.extent(physical_offset, size))
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
            if self.runs.first < 0:
                self.runs.first = physical_offset
            self.result.buffers.append(data if size == i64(len(data)) else data[at : at + size])
        return passes

    def _bring(self, physical_offset: i64, size: i64) -> bool:
        """Read one record into the window; return False if it is cold.

        If records are close to each other, each read covers more of the log.
        """
        at = physical_offset - self._window_at
        end: i64 = len(self._window)
        if at >= 0 and at + size <= end:
            return True
        segments = self.log.segments
        want = size
        if end > 0 and at >= 0 and at - end <= GAP:
            segment = self.log.segment_size
            room: i64 = min(segment - physical_offset % segment, self.log_end - physical_offset)
            want = min(max(size, min(max(4 * end, _FIRST_WINDOW), _WINDOW)), room)
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


def _is_one_of(code: i64, wanted: set[int]) -> bool:
    """Return whether the lower half of a unit's tags code is one of these signed hashes."""
    return int(code if code < 0x80000000 else code - 0x100000000) in wanted


def _ext_unit(ext: ConsumeQueueExt, address: i64) -> ExtUnit | None:
    try:
        return ext.unit(address)
    except LayoutError:
        return None
