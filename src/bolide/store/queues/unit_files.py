"""Searches the units in the files of one queue for the last valid unit after a crash or the end after a truncation."""

from __future__ import annotations

from typing import Final, final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from bolide.layout.ext_unit import is_ext_address
from bolide.layout.queue_unit import PRE_BLANK_SIZE, UNIT_SIZE
from bolide.store.disk.segments import SegmentList

NO_ADDRESS: Final = 1
_SCAN_CHUNK: Final = 3276 * UNIT_SIZE  # below 64 KiB: most queues end within their first chunk
_RECOVER_FILES: Final = 3
_PAGE: Final = 4096
_WIPE_CHUNK: Final = 64 * _PAGE


@final
class UnitFiles:
    """The files of one queue. Queue offsets count units; physical offsets are bytes of the log. All calls raise
    `FileFailed`."""

    def __init__(self, segments: SegmentList) -> None:
        self.physical_end: i64 = -1
        """End of the record of the last valid unit that `find_end` read, or -1."""
        self.ext_address: i64 = NO_ADDRESS
        """Highest ext address that `find_end` read, or `NO_ADDRESS`."""
        self._segments = segments
        self._units_per_file: i64 = segments.segment_size // UNIT_SIZE

    def find_end(self) -> i64:
        """Return the queue offset of the first invalid unit, searching from the third file from the end."""
        end: i64 = 0
        for start in self._segments.segment_starts()[-_RECOVER_FILES:]:
            end = self._scan(start // UNIT_SIZE)
            if end < start // UNIT_SIZE + self._units_per_file:
                break
        return end

    def _scan(self, first: i64) -> i64:
        """Return the end of the valid units in the file that starts with this unit.

        Ext addresses ascend. A killed process can leave only the first bytes of the last unit, whose address is then
        too low. If it were treated as the end of the extension, the extensions of all units before would be wiped.
        """
        at = first
        stop = first + self._units_per_file
        while at < stop:
            data = self._segments.read(at * UNIT_SIZE, min(_SCAN_CHUNK, (stop - at) * UNIT_SIZE))
            count: i64 = len(data) // UNIT_SIZE
            i: i64 = 0
            while i < count:
                offset = read_i64_be(data, i * UNIT_SIZE)
                size: i64 = i64(read_i32_be(data, i * UNIT_SIZE + 8))
                if offset < 0 or size <= 0:
                    return at + i
                if size != PRE_BLANK_SIZE:
                    if offset < self.physical_end:
                        # Units are in the order of the log. A crash during a wipe has left the end of this unit.
                        return at + i
                    self.physical_end = offset + size
                code = read_i64_be(data, i * UNIT_SIZE + 12)
                if is_ext_address(code) and (self.ext_address == NO_ADDRESS or code > self.ext_address):
                    self.ext_address = code
                i += 1
            if count == 0:
                break
            at += count
        return at

    def end_below(self, end: i64, physical_offset: i64) -> i64:
        """Return the end of the units up to the last record below an offset of the log, at most `end`.

        Skips holes that a power failure may have left after that unit.
        """
        first = self._segments.min_offset // UNIT_SIZE
        while end > first:
            start: i64 = max(first, end - _SCAN_CHUNK // UNIT_SIZE)
            data = self._segments.read(start * UNIT_SIZE, (end - start) * UNIT_SIZE)
            i: i64 = len(data) // UNIT_SIZE
            while i > 0:
                if read_i64_be(data, (i - 1) * UNIT_SIZE) < physical_offset:
                    if i64(read_i32_be(data, (i - 1) * UNIT_SIZE + 8)) > 0:
                        return start + i
                i -= 1
            end = start
        return first

    def wipe_from(self, queue_offset: i64) -> None:
        """Write zeros over the units from `queue_offset` to the end of the files."""
        at = queue_offset * UNIT_SIZE
        stop = self._segments.end_of_files
        chunk: i64 = _PAGE
        while at < stop:
            # Skip holes of a sparse file, and start with small steps, because most queues fill little of their file.
            found = self._segments.next_data(at)
            if found < 0:
                at = at - at % self._segments.segment_size + self._segments.segment_size
                continue
            data = self._segments.read(found, min(chunk - found % _PAGE, stop - found))
            if not data:
                return
            if data != bytes(len(data)):
                self._segments.write(found, [bytes(len(data))])
            at = found + len(data)
            chunk = min(2 * chunk, _WIPE_CHUNK)
