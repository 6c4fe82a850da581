"""First half of the dispatch job: what follows from the records of one stretch, as columns in one file.

A part file holds, in blocks: queue units sorted by queue (the bytes they will have, tags codes plain), their queue
offsets, for extension files their store times and bitmaps, then index entries in the order of the log. What the second
half needs to find its way (`PartSummary`) goes back to the driver: a few numbers a queue, never a row.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from bolide.dispatch.columns import index_batch, queue_units, tags_codes
from bolide.layout.columns import RecordColumns
from bolide.layout.sysflag import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from bolide.spark.bitmaps import Bitmaps, TopicFilter
from bolide.spark.log_scan import BadRange, Found, Stretch, scan

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from bolide.layout.property_columns import Ints
    from bolide.layout.shape import StoreShape

UNIT: Final = np.dtype([("at", ">i8"), ("size", ">i4"), ("code", ">i8")])
ENTRY: Final = np.dtype([("hash", "<i4"), ("at", "<i8"), ("time", "<i8")])
"""An index entry before its file is known: key hash, physical offset, store time in ms."""
_EXT_ROW: Final = UNIT.itemsize + 8 + 8
_NO_BITMAPS: Final = np.zeros((0, 0), np.uint8)


@dataclass(frozen=True)
class QueueRun:
    """The units of one queue in one part: rows [first, first + count) of its blocks."""

    topic: str
    queue_id: int
    first: int
    count: int
    begin_offset: int
    """Queue offset of the first."""
    even: bool
    """Queue offsets rise by one."""


@dataclass
class PartSummary:
    """One part file and what is in it. Offsets are physical, times store times in ms; -1 where there is no record."""

    path: str
    number: int
    records: int = 0
    units: int = 0
    entries: int = 0
    row_bytes: int = 0
    """Of a unit in all its blocks."""
    last_offset: int = -1
    end_offset: int = -1
    last_timestamp: int = -1
    last_entry_offset: int = -1
    runs: list[QueueRun] = field(default_factory=list)
    bad: list[BadRange] = field(default_factory=list)


class _Columns:
    """What one stretch has given so far."""

    def __init__(self, shape: StoreShape, filters: Sequence[TopicFilter]) -> None:
        self.topics: dict[str, int] = {}
        self.keys: list[Ints] = []
        self.units: list[NDArray[Any]] = []
        self.offsets: list[Ints] = []
        self.times: list[Ints] = []
        self.entries: list[NDArray[Any]] = []
        self.bitmaps: list[NDArray[np.uint8]] = []
        self._shape = shape
        self._filter = Bitmaps(filters, shape)

    def add(self, records: RecordColumns) -> None:
        """Dispatch these records."""
        bits = records.numbers("sys_flag") & TRANSACTION_MASK
        rows = np.flatnonzero((bits != TRANSACTION_PREPARED) & (bits != TRANSACTION_ROLLBACK))
        encoded: Any = records.topic.dictionary_encode()
        numbers = [self.topics.setdefault(topic, len(self.topics)) for topic in encoded.dictionary.to_pylist()]
        topics = np.array(numbers, np.int64)[encoded.indices.to_numpy()]
        keys = topics * (1 << 32) + (records.numbers("queue_id").astype(np.int64) & 0xFFFFFFFF)
        self.keys.append(keys[rows])
        sizes, codes = records.numbers("total_size"), tags_codes(records, self._shape)
        data = queue_units(records.numbers("physical_offset")[rows], sizes[rows], codes[rows])
        self.units.append(np.frombuffer(data, UNIT))
        self.offsets.append(records.numbers("queue_offset")[rows])
        if self._shape.enable_consume_queue_ext:
            self.times.append(records.numbers("store_timestamp")[rows])
            self.bitmaps.append(self._filter.of(records)[rows])
        if self._shape.index_enabled:
            made = index_batch(records, self._shape)
            entries = np.empty(made.num_rows, ENTRY)
            entries["hash"] = made.column("key_hash").to_numpy()
            entries["at"] = made.column("physical_offset").to_numpy()
            entries["time"] = made.column("store_timestamp").to_numpy()
            self.entries.append(entries)

    def write(self, summary: PartSummary) -> None:
        """Sort by queue, keeping the log's order within one, and write the part file."""
        keys = joined(self.keys, np.dtype(np.int64))
        order = np.argsort(keys, kind="stable")
        units = joined(self.units, UNIT)[order]
        offsets = joined(self.offsets, np.dtype(np.int64))[order]
        entries = joined(self.entries, ENTRY)
        summary.runs = self._runs(keys[order], offsets)
        summary.units, summary.entries = len(units), len(entries)
        if len(entries):
            summary.last_entry_offset = int(entries["at"][-1])
        blocks: list[NDArray[Any]] = [units, offsets.astype("<i8")]
        if self._shape.enable_consume_queue_ext:
            blocks.append(joined(self.times, np.dtype(np.int64))[order].astype("<i8"))
            width = self._filter.width
            maps = np.concatenate([np.zeros((0, width), np.uint8), *self.bitmaps])
            blocks.append(maps[order])
        summary.row_bytes = sum(block.itemsize * (block.shape[1] if block.ndim > 1 else 1) for block in blocks)
        write_new(summary.path, [memoryview(block.tobytes()) for block in [*blocks, entries]])

    def _runs(self, keys: Ints, offsets: Ints) -> list[QueueRun]:
        names = list(self.topics)
        cuts = np.flatnonzero(np.diff(keys)) + 1
        found = []
        for first, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(keys)], strict=True):
            if first < end:
                key = int(keys[first])
                even = bool((np.diff(offsets[first:end]) == 1).all())
                topic, queue_id = names[key >> 32], key & 0xFFFFFFFF
                found.append(QueueRun(topic, queue_id, first, end - first, int(offsets[first]), even))
        return found


def make_part(
    part: Stretch, shape: StoreShape, path: str, number: int, filters: Sequence[TopicFilter] = ()
) -> PartSummary:
    """Read one stretch of the log and write its part file."""
    summary = PartSummary(path, number)
    columns = _Columns(shape, filters)
    for step in scan(part):
        if isinstance(step, Found):
            records = RecordColumns(step.data, step.starts)
            columns.add(records)
            offsets = records.numbers("physical_offset")
            summary.records += len(offsets)
            summary.last_offset = int(offsets[-1])
            summary.end_offset = summary.last_offset + int(records.numbers("total_size")[-1])
            summary.last_timestamp = int(records.numbers("store_timestamp")[-1])
        else:
            summary.bad.append(step)
    columns.write(summary)
    return summary


@dataclass(frozen=True)
class QueueRows:
    """The units of one queue in one part; times and bitmaps (one row each) are there for extension files only."""

    units: NDArray[Any]
    offsets: Ints
    times: Ints
    bitmaps: NDArray[np.uint8]


def read_run(summary: PartSummary, run: QueueRun) -> QueueRows:
    """What a part holds of one queue."""
    width = max(summary.row_bytes - _EXT_ROW, 0)
    ext = summary.row_bytes >= _EXT_ROW
    with open(summary.path, "rb") as file:
        units = _block(file, run.first * UNIT.itemsize, run.count, UNIT)
        at = summary.units * UNIT.itemsize
        offsets = _block(file, at + 8 * run.first, run.count, np.dtype("<i8"))
        times = _block(file, at + 8 * (summary.units + run.first), run.count if ext else 0, np.dtype("<i8"))
        at = summary.units * _EXT_ROW + run.first * width
        bitmaps = _block(file, at, run.count * width, np.dtype(np.uint8)).reshape(-1, width) if width else _NO_BITMAPS
    return QueueRows(units, offsets, times, bitmaps)


def read_entries(parts: Sequence[PartSummary], first: int, end: int) -> NDArray[Any]:
    """Index entries [first, end) of the whole log, counted from 0."""
    found = []
    base = 0
    for summary in parts:
        low, high = max(first - base, 0), min(end - base, summary.entries)
        if low < high:
            with open(summary.path, "rb") as file:
                at = summary.units * summary.row_bytes
                found.append(_block(file, at + low * ENTRY.itemsize, high - low, ENTRY))
        base += summary.entries
    return joined(found, ENTRY)


def write_new(path: str, buffers: Sequence[bytes | memoryview], size: int = 0) -> None:
    """Write a file of `size` bytes at least, durable and whole or not at all; a second attempt writes the same."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fresh = f"{path}.{uuid.uuid4().hex}.tmp"
    with open(fresh, "wb") as file:
        for buffer in buffers:
            file.write(buffer)
        if file.tell() < size:
            file.truncate(size)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


def _block(file: Any, at: int, count: int, kind: np.dtype[Any]) -> NDArray[Any]:
    file.seek(at)
    return np.frombuffer(file.read(count * kind.itemsize), kind)


def joined(arrays: Sequence[NDArray[Any]], kind: np.dtype[Any]) -> NDArray[Any]:
    """One array of this type; numpy by itself would give structures the machine's byte order."""
    return np.concatenate(arrays).astype(kind, copy=False) if arrays else np.empty(0, kind)
