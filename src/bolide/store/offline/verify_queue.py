"""Checks one queue's files against its records in the log. Part of `verify`."""

from __future__ import annotations

from bolide.dispatch.row import Dispatch
from bolide.errors import BolideError
from bolide.layout.ext_unit import ext_offset, is_ext_address, read_ext_unit
from bolide.layout.queue_unit import PRE_BLANK_SIZE, UNIT_SIZE, read_unit
from bolide.layout.shape import StoreShape
from bolide.store.disk.files import Files
from bolide.store.offline.walk import SegmentFile, read_whole, segment_files


def place_fault(d: Dispatch, unit: tuple[int, int, int]) -> str:
    """Return why a unit does not point to this record, or ""."""
    physical_offset, size, _ = unit
    if (physical_offset, size) == (d.physical_offset, d.size):
        return ""
    return f"the unit says {size} bytes at {physical_offset}, the record has {d.size} at {d.physical_offset}"


def tags_fault(d: Dispatch, tags_code: int) -> str:
    """Return why this tags code, of a unit or its extension, is not the record's, or ""."""
    return "" if tags_code == d.tags_code else f"the unit has tags code {tags_code}, its record {d.tags_code}"


class QueueCheck:
    """Marks the unit of each record. `finish` reports the units without a record."""

    def __init__(self, files: Files, path: str, ext_path: str, shape: StoreShape) -> None:
        self.path = path
        self.matched = 0
        self.ext_matched = 0
        self.findings: list[tuple[int, str]] = []
        """Position in the stream in bytes, and a sentence."""
        self.missing: list[int] = []
        """Physical offsets of records without a unit."""
        self.missing_tail = 0
        """Number of the missing records that follow the last record with a unit."""
        self._files = files
        self._shape = shape
        self._segments = segment_files(files, path)
        self._ext = {file.start: file for file in segment_files(files, ext_path)} if ext_path else {}
        self._ext_held: tuple[int, bytes] = (-1, b"")
        first = self._segments[0].start // UNIT_SIZE if self._segments else 0
        self._first = first
        self._marks = bytearray(sum(file.size for file in self._segments) // UNIT_SIZE)

    def expect(self, dispatches: list[Dispatch]) -> None:
        """Look up the units of these records, in log order."""
        held = (-1, b"")
        size = self._shape.consume_queue_segment_size
        by_start = {file.start: file for file in self._segments}
        for d in dispatches:
            start = d.queue_offset * UNIT_SIZE // size * size
            if held[0] != start:
                file = by_start.get(start)
                held = (start, self._read(file) if file is not None else b"")
            at = d.queue_offset * UNIT_SIZE - start
            unit = read_unit(held[1], at) if at + UNIT_SIZE <= len(held[1]) else (0, 0, 0)
            if unit[:2] == (0, 0):
                self.missing.append(d.physical_offset)
                self.missing_tail += 1
                continue
            self.missing_tail = 0
            self._marks[d.queue_offset - self._first] = 1
            self._compare(d, start + at, unit)

    def finish(self, log_start: int, log_end: int) -> None:
        """Check the units without a record. Units of records that retention has deleted are not an error."""
        for file in self._segments:
            data = self._read(file)
            for at in range(0, len(data) - UNIT_SIZE + 1, UNIT_SIZE):
                physical_offset, size, _ = read_unit(data, at)
                if self._marks[(file.start + at) // UNIT_SIZE - self._first] or size == PRE_BLANK_SIZE:
                    continue
                if size == 0 and physical_offset == 0:
                    continue
                position = file.start + at
                if physical_offset < 0 or size <= 0:
                    self.findings.append((position, f"the unit is no unit: offset {physical_offset}, size {size}"))
                elif physical_offset >= log_end:
                    self.findings.append((position, f"the unit points to {physical_offset}, the log ends at {log_end}"))
                elif physical_offset >= log_start:
                    self.findings.append((position, f"the unit points to {physical_offset}, no record of this queue"))

    def _compare(self, d: Dispatch, position: int, unit: tuple[int, int, int]) -> None:
        fault = place_fault(d, unit)
        if fault:
            self.findings.append((position, fault))
            return
        self.matched += 1
        tags_code = unit[2]
        if self._ext and is_ext_address(tags_code):
            found = self._ext_tags_code(position, ext_offset(tags_code), d)
            if found is None:
                return
            tags_code = found
        fault = tags_fault(d, tags_code)
        if fault:
            self.findings.append((position, fault))

    def _ext_tags_code(self, position: int, where: int, d: Dispatch) -> int | None:
        size = self._shape.consume_queue_ext_segment_size
        start = where // size * size
        if self._ext_held[0] != start:
            file = self._ext.get(start)
            self._ext_held = (start, self._read(file) if file is not None else b"")
        try:
            unit = read_ext_unit(self._ext_held[1], where - start)
        except BolideError as error:
            self.findings.append((position, f"the unit's extension at {where} cannot be read: {error}"))
            return None
        if unit.store_timestamp != d.store_timestamp:
            self.findings.append((position, f"the unit's extension at {where} has another record's store time"))
        self.ext_matched += 1
        return unit.tags_code

    def _read(self, file: SegmentFile) -> bytes:
        return read_whole(self._files, file.path, file.size)
