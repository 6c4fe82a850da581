"""First half of the dispatch job: writes the units and entries of the records of a stretch as columns into a file.

A part file contains, in blocks: queue units sorted by queue (their final bytes, with tags codes), their queue offsets,
for extension files their store times and bitmaps, then hash, offset and time of index entries in log order. The task
returns their positions (`PartSummary`, an array with one row per queue) to the driver, for the second half.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bolide.dispatch.columns import index_hashes, light_queues, tags_codes
from bolide.dispatch.multi import LMQ_QUEUE_ID, is_place
from bolide.layout.columns import RecordColumns
from bolide.layout.sysflag import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from bolide.spark.dispatch.bitmaps import Bitmaps, TopicFilter
from bolide.spark.store.deleted import alive, marks_of
from bolide.spark.store.log_scan import BadRange, FoundRecords, Stretch, scan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bolide.layout.property_columns import Column, Ints
    from bolide.layout.shape import StoreShape

UNIT: Final = np.dtype([("at", ">i8"), ("size", ">i4"), ("code", ">i8")])
RUN: Final = np.dtype([("topic", "i8"), ("queue_id", "i8"), ("first", "i8"), ("count", "i8"), ("begin", "i8")])
"""The units of a queue in a part: rows [first, first + count) of its blocks. `begin` is the queue offset of the first
unit, and `topic` an index in the part's list of topics."""
_LONG: Final = np.dtype("<i8")
_HASH: Final = np.dtype("<i4")
_BYTE: Final = np.dtype(np.uint8)
_OPEN_FILES: Final = 200
TAG_MARK: Final = np.int32(-(2**31))
"""The sign bit of a hash, which is never negative, marks an entry for tags in the parts of an audit."""
_EXT_ROW: Final = UNIT.itemsize + 8 + 8
_NO_BITMAPS: Final = np.zeros((0, 0), np.uint8)


@dataclass(frozen=True)
class PartFile:
    """The path of a part, and the sizes of its blocks."""

    path: str
    units: int
    row_bytes: int
    """Size in bytes of a unit in all blocks."""
    entries: int


@dataclass
class PartSummary:
    """A part file and its contents. Offsets are physical, times are store times in ms. Both are -1 without a record."""

    number: int
    file: PartFile
    records: int = 0
    last_offset: int = -1
    end_offset: int = -1
    last_timestamp: int = -1
    newest_timestamp: int = -1
    """Largest store time, which may not be the last record's if a clock was set back."""
    last_entry_offset: int = -1
    topics: tuple[str, ...] = ()
    runs: NDArray[Any] = field(default_factory=lambda: np.empty(0, RUN))
    bad: list[BadRange] = field(default_factory=list)


@dataclass(frozen=True)
class Entries:
    """Index entries that are not assigned to a file yet: key hashes, physical offsets, store times in ms."""

    hashes: NDArray[np.int32]
    offsets: Ints
    times: Ints


class _Columns:
    """The columns of a part while its stretches are read."""

    def __init__(
        self, shape: StoreShape, filters: Sequence[TopicFilter], audit: bool, deleted: dict[str, int] | None = None
    ) -> None:
        self._deleted = deleted or {}
        self._topics: dict[str, int] = {}
        self._columns: dict[str, list[Any]] = {}
        self._bitmaps: list[NDArray[np.uint8]] = []
        self._shape = shape
        self._filter = Bitmaps(filters, shape, audit)
        self._audit = audit

    def add(self, records: RecordColumns) -> None:
        """Dispatch these records."""
        physical_offsets, times = records.numbers("physical_offset"), records.numbers("store_timestamp")
        rows, keys, offsets = self._places(records)
        self._keep("key", keys)
        self._keep("offset", offsets)
        self._keep("at", physical_offsets[rows])
        self._keep("size", records.numbers("total_size")[rows])
        self._keep("code", tags_codes(records, self._shape)[rows])
        if self._shape.enable_consume_queue_ext:
            self._keep("time", times[rows])
            self._bitmaps.append(self._filter.of(records)[rows])
        if self._shape.index_enabled:
            owners, hashes = index_hashes(records, self._shape)
            hashes = hashes.astype(_HASH)
            if self._audit and self._shape.tags_in_index:
                # The entry for tags is the last of its record, if the record has one entry more than keys.
                plain, _ = index_hashes(records, self._shape.with_tags_in_index(False))
                counts = np.bincount(owners, minlength=len(records))
                tagged = counts != np.bincount(plain, minlength=len(records))
                hashes[np.cumsum(counts)[tagged] - 1] |= TAG_MARK
            self._keep("entry_hash", hashes)
            self._keep("entry_at", physical_offsets[owners])
            self._keep("entry_time", times[owners])

    def _keep(self, name: str, values: NDArray[Any]) -> None:
        self._columns.setdefault(name, []).append(values)

    def _column(self, name: str, kind: np.dtype[Any] = _LONG) -> NDArray[Any]:
        found = self._columns.pop(name, [])
        return np.concatenate(found).astype(kind, copy=False) if found else np.empty(0, kind)

    def _places(self, records: RecordColumns) -> tuple[Ints, Ints, Ints]:
        """Return the row, queue and queue offset of every unit, in the order of the log."""
        bits = records.numbers("sys_flag") & TRANSACTION_MASK
        queued = (bits != TRANSACTION_PREPARED) & (bits != TRANSACTION_ROLLBACK)
        own = queued & _have_places(records)  # its light queues have separate positions
        places = records.numbers("physical_offset")
        rows = np.flatnonzero(own & alive(records.topic, places, self._deleted) if self._deleted else own)
        keys = self._keys(records.topic_codes, records.numbers("queue_id"))[rows]
        offsets = records.numbers("queue_offset")[rows]
        if not self._shape.multi_dispatch:
            return rows, keys, offsets
        light_rows, names, light_offsets = light_queues(records)
        kept = queued[light_rows]
        light: Any = names
        if self._deleted:
            kept &= alive(light, places[light_rows], self._deleted)
        light_keys = self._keys(light.dictionary_encode(), np.full(len(names), LMQ_QUEUE_ID, np.int64))
        all_rows = np.concatenate([rows, light_rows[kept]])
        order = np.argsort(all_rows, kind="stable")
        every_key = np.concatenate([keys, light_keys[kept]])
        return all_rows[order], every_key[order], np.concatenate([offsets, light_offsets[kept]])[order]

    def _keys(self, topics: Column, queue_ids: Ints) -> Ints:
        """Encode topic and queue id as one number. `topics` are dictionary encoded."""
        encoded: Any = topics
        numbers = [self._topics.setdefault(topic, len(self._topics)) for topic in encoded.dictionary.to_pylist()]
        of_row: Ints = np.array(numbers, np.int64)[encoded.indices.to_numpy()]
        return of_row * (1 << 32) + (queue_ids.astype(np.int64) & 0xFFFFFFFF)

    def write(self, summary: PartSummary) -> None:
        """Sort by queue, in the order of the log within a queue, and write the part file."""
        keys = self._column("key")
        order = _order_of(keys)
        units = np.empty(len(keys), UNIT)
        for name in ("at", "size", "code"):
            units[name] = self._column(name)[order]
        offsets = self._column("offset")[order]
        blocks: list[NDArray[Any]] = [units, offsets]
        if self._shape.enable_consume_queue_ext:
            blocks.append(self._column("time")[order])
            blocks.append(np.concatenate([np.zeros((0, self._filter.width), np.uint8), *self._bitmaps])[order])
        row_bytes = sum(block.itemsize * (block.shape[1] if block.ndim > 1 else 1) for block in blocks)
        entries = [self._column("entry_hash", _HASH), self._column("entry_at"), self._column("entry_time")]
        if len(entries[1]):
            summary.last_entry_offset = int(entries[1][-1])
        summary.topics = tuple(self._topics)
        summary.runs = _runs(keys[order], offsets)
        summary.file = PartFile(summary.file.path, len(units), row_bytes, len(entries[0]))
        os.makedirs(os.path.dirname(summary.file.path), exist_ok=True)
        # Do not sync: parts are deleted after the job, and a killed job starts over.
        with open(summary.file.path, "wb") as file:
            for block in [*blocks, *entries]:
                file.write(raw_bytes(block))


def _have_places(records: RecordColumns) -> NDArray[np.bool_]:
    """Return whether topic and queue of each record are valid names of a folder. A broker skips invalid ones, too."""
    encoded: Any = records.topic_codes
    good = np.array([is_place(topic, 0) for topic in encoded.dictionary.to_pylist()], np.bool_)
    named: NDArray[np.bool_] = good[encoded.indices.to_numpy()]
    return named & (records.numbers("queue_id") >= 0)


def _order_of(keys: Ints) -> Ints:
    """Return the stable order of keys. Uses a radix sort of their numbers for few queues, as in most logs."""
    if not len(keys):
        return np.empty(0, np.int64)
    topics, queues = keys >> 32, keys & 0xFFFFFFFF
    width = int(queues.max()) + 1
    if (int(topics.max()) + 1) * width <= 1 << 16:
        return np.argsort((topics * width + queues).astype(np.uint16), kind="stable")
    return np.argsort(keys, kind="stable")


def _runs(keys: Ints, offsets: Ints) -> NDArray[Any]:
    """Return one row per queue, for sorted keys."""
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    runs = np.empty(len(first), RUN)
    runs["topic"], runs["queue_id"] = keys[first] >> 32, keys[first] & 0xFFFFFFFF
    runs["first"], runs["count"] = first, np.diff(np.append(first, len(keys)))
    runs["begin"] = offsets[first]
    return runs


def make_part(
    stretches: Sequence[Stretch],
    shape: StoreShape,
    path: str,
    number: int,
    filters: Sequence[TopicFilter] = (),
    audit: bool = False,
) -> PartSummary:
    """Read consecutive stretches of the log and write a part file. A second attempt writes the same bytes.

    With `audit`, compares bodies with their CRCs, and marks the hashes of entries for tags (`TAG_MARK`).
    """
    summary = PartSummary(number, PartFile(path, 0, 0, 0))
    columns = _Columns(shape, filters, audit, marks_of(stretches[0].path) if stretches else None)
    for step in chain.from_iterable(scan(part, check_crc=audit) for part in stretches):
        if isinstance(step, FoundRecords):
            records = step.records()
            columns.add(records)
            summary.records += len(records)
            summary.last_offset = step.base + int(step.starts[-1])
            summary.end_offset = summary.last_offset + int(records.numbers("total_size")[-1])
            times = records.numbers("store_timestamp")
            summary.last_timestamp = int(times[-1])
            summary.newest_timestamp = max(summary.newest_timestamp, int(times.max()))
        else:
            summary.bad.append(step)
    columns.write(summary)
    return summary


@dataclass(frozen=True)
class QueueRows:
    """The units of a queue in a part. Times and bitmaps, with one row per unit, exist only for extension files."""

    units: NDArray[Any]
    offsets: Ints
    times: Ints
    bitmaps: NDArray[np.uint8]


class PartFiles:
    """Reads the part files of a job. Keeps files open until `close`, because a task reads each for many queues."""

    def __init__(self, files: Sequence[PartFile]) -> None:
        self.files = files
        self.entries = sum(part.entries for part in files)
        self._handles: dict[int, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"files": self.files}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["files"])  # type: ignore[misc] # without the handles

    def __enter__(self) -> PartFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files."""
        for handle in self._handles.values():
            os.close(handle)
        self._handles.clear()

    def run(self, number: int, first: int, count: int) -> QueueRows:
        """Return rows [first, first + count) of a part."""
        part = self.files[number]
        width = max(part.row_bytes - _EXT_ROW, 0)
        ext = part.row_bytes >= _EXT_ROW
        units = self._block(number, first * UNIT.itemsize, count, UNIT)
        at = part.units * UNIT.itemsize
        offsets = self._block(number, at + 8 * first, count, _LONG)
        times = self._block(number, at + 8 * (part.units + first), count if ext else 0, _LONG)
        if not width:
            return QueueRows(units, offsets, times, _NO_BITMAPS)
        at = part.units * _EXT_ROW + first * width
        return QueueRows(units, offsets, times, self._block(number, at, count * width, _BYTE).reshape(-1, width))

    def index_entries(self, first: int, end: int) -> Entries:
        """Return index entries [first, end) of all parts, counted from 0."""
        kinds: tuple[np.dtype[Any], ...] = (_HASH, _LONG, _LONG)
        columns: list[list[NDArray[Any]]] = [[np.empty(0, kind)] for kind in kinds]
        for number, low, high in self._of_entries(first, end):
            part = self.files[number]
            at = part.units * part.row_bytes
            for column, kind in zip(columns, kinds, strict=True):
                column.append(self._block(number, at + low * kind.itemsize, high - low, kind))
                at += part.entries * kind.itemsize
        hashes, offsets, times = (np.concatenate(column) for column in columns)
        return Entries(hashes, offsets, times)

    def hashes(self, first: int, end: int) -> NDArray[np.int32]:
        """Return only the key hashes of index entries [first, end)."""
        found: list[NDArray[Any]] = [np.empty(0, _HASH)]
        for number, low, high in self._of_entries(first, end):
            part = self.files[number]
            found.append(self._block(number, part.units * part.row_bytes + 4 * low, high - low, _HASH))
        return np.concatenate(found)

    def _of_entries(self, first: int, end: int) -> list[tuple[int, int, int]]:
        """Return the parts that contain these entries, and the range in each."""
        found = []
        base = 0
        for number, part in enumerate(self.files):
            low, high = max(first - base, 0), min(end - base, part.entries)
            if low < high:
                found.append((number, low, high))
            base += part.entries
        return found

    def _block(self, number: int, at: int, count: int, kind: np.dtype[Any]) -> NDArray[Any]:
        values = np.empty(count, kind)
        view = raw_bytes(values)
        got = 0
        while got < len(view):
            more = os.preadv(self._handle(number), [view[got:]], at + got)
            if not more:
                raise EOFError(f"{self.files[number].path} ends before byte {at + len(view)}")
            got += more
        return values

    def _handle(self, number: int) -> int:
        handle = self._handles.get(number)
        if handle is None:
            if len(self._handles) >= _OPEN_FILES:
                os.close(self._handles.pop(next(iter(self._handles))))
            handle = self._handles[number] = os.open(self.files[number].path, os.O_RDONLY)
        return handle


def raw_bytes(array: NDArray[Any]) -> memoryview:
    """Return the bytes of an array without copying them."""
    flat: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return memoryview(flat)
