"""Compares the files of a queue with the records of the queue in the log, by columns. Part of `verify_job`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bolide.dispatch.multi import is_lmq
from bolide.layout.ext_unit import MAX_ADDRESS
from bolide.layout.queue_unit import PRE_BLANK_SIZE, UNIT_SIZE
from bolide.spark.dispatch.derived_files import QueueTask, queue_blocks
from bolide.spark.dispatch.dispatch_parts import UNIT, PartFiles, QueueRows
from bolide.spark.store.store_folder import segment_files
from bolide.spark.verify.verdict import Findings, QueueRow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bolide.layout.property_columns import Ints
    from bolide.layout.shape import StoreShape

_EXT_HEAD: Final = np.dtype([("size", ">i2"), ("code", ">i8"), ("time", ">i8"), ("bitmap", ">i2")])


@dataclass
class QueueAudit:
    """The findings of a queue."""

    row: QueueRow
    found: Findings = field(default_factory=Findings)
    ext_units: int = 0
    strange_bits: int = 0
    """Number of extension units with bits of unknown filters."""
    lacking: int = 0
    """Number of records without a unit that precede records with a unit."""
    lacking_first: int = -1
    behind: int = 0
    """Number of records without a unit at the end of the queue."""
    behind_first: int = -1


class _Files:
    """The units of a queue on disk. Only one file is in memory at a time."""

    def __init__(self, folder: Path, found: Findings, size: int) -> None:
        self._held: tuple[int, NDArray[Any]] = (-1, np.empty(0, UNIT))
        self.files = {start: path for start, path, _ in segment_files(folder)}
        self._size = size
        check_segments(folder, size, found)

    def units(self, start: int) -> NDArray[Any]:
        """Return the units of the file with this start, or an empty array if it does not exist."""
        if self._held[0] != start:
            path = self.files.get(start)
            data = b"" if path is None else path.read_bytes()
            self._held = (start, np.frombuffer(data, UNIT, min(len(data), self._size) // UNIT_SIZE))
        return self._held[1]


def check_segments(folder: Path, size: int, found: Findings) -> None:
    """Check names, sizes and starts of the files of a segmented stream."""
    files = segment_files(folder)
    if folder.is_dir():
        names = {path.name for _, path, _ in files}
        for other in sorted(path.name for path in folder.iterdir() if path.name not in names):
            found.find(f"{folder}/{other}", 0, "the name is not a start offset of 20 digits")
    expected = files[0][0] if files else 0
    for start, path, got in files:
        if got != size:
            found.find(str(path), 0, f"it has {got} bytes, a file of this store has {size}")
        if start != expected:
            found.find(str(path), 0, f"it begins at {start}, the previous file ends at {expected}")
        expected = start + size


def audit_queue(
    root: str, parts: PartFiles, task: QueueTask, shape: StoreShape, log_start: int, log_end: int
) -> QueueAudit:
    """Check the unit of each record, then the units without a record."""
    audit = QueueAudit(QueueRow(task.topic, task.queue_id, task.units))
    folder = Path(root) / "consumequeue" / task.topic / str(task.queue_id)
    files = _Files(folder, audit.found, shape.consume_queue_segment_size)
    ext = None
    if shape.enable_consume_queue_ext and not is_lmq(task.topic):
        ext = _Ext(Path(root) / "consumequeue_ext" / task.topic / str(task.queue_id), shape)
        check_segments(ext.folder, shape.consume_queue_ext_segment_size, audit.found)
    starts = sorted(files.files)
    first = starts[0] // UNIT_SIZE if starts else 0
    per_file = shape.consume_queue_segment_size // UNIT_SIZE
    marks = np.zeros((starts[-1] // UNIT_SIZE - first if starts else 0) + per_file, np.bool_)
    before = -1
    for block in queue_blocks(parts, task):
        _steps(audit, folder, block, before)
        before = int(block.offsets.max()) if before < 0 else max(before, int(block.offsets.max()))
        file_of = block.offsets // per_file * shape.consume_queue_segment_size
        cuts = np.flatnonzero(np.append(True, file_of[1:] != file_of[:-1]))
        for low, high in zip(cuts.tolist(), [*cuts[1:].tolist(), len(file_of)], strict=True):
            some = QueueRows(
                block.units[low:high], block.offsets[low:high], block.times[low:high], block.bitmaps[low:high]
            )
            _compare(audit, files, int(file_of[low]), some, ext, marks, first)
    _strangers(audit, files, marks, first, log_start, log_end)
    return audit


def _steps(audit: QueueAudit, folder: Path, block: QueueRows, before: int) -> None:
    """Report queue offsets that do not increase by one."""
    offsets = block.offsets
    wanted = np.append(before + 1 if before >= 0 else offsets[0], np.maximum.accumulate(offsets)[:-1] + 1)
    odd = np.flatnonzero(offsets != wanted)
    name = f"{audit.row.topic} queue {audit.row.queue_id}"

    def sentence(row: int) -> str:
        got, due = int(offsets[row]), int(wanted[row])
        said = "is used again" if got < due else f"follows {due - 1}: there is a gap"
        return f"{name}: queue offset {got} of the record at {int(block.units['at'][row])} {said}"

    audit.found.each(len(odd), ((str(folder), int(offsets[row]) * UNIT_SIZE, sentence(row)) for row in odd.tolist()))


def _compare(
    audit: QueueAudit, files: _Files, start: int, block: QueueRows, ext: _Ext | None, marks: Any, first: int
) -> None:
    """Compare units of a file with their records."""
    units = files.units(start)
    places = block.offsets - start // UNIT_SIZE
    there = places < len(units)
    actual = np.zeros(len(places), UNIT)
    actual[there] = units[places[there]]
    empty = (actual["at"] == 0) & (actual["size"] == 0)
    _lack(audit, block.units["at"][empty], bool(len(empty)) and not bool(empty.all()), np.flatnonzero(~empty))
    got = ~empty
    marks[block.offsets[got] - first] = True
    path = str(files.files.get(start, ""))
    wrong = np.flatnonzero(got & ((actual["at"] != block.units["at"]) | (actual["size"] != block.units["size"])))
    audit.found.each(
        len(wrong),
        (
            (
                path,
                int(places[row]) * UNIT_SIZE,
                f"the unit says {actual['size'][row]} bytes at {actual['at'][row]}, the record has "
                f"{block.units['size'][row]} at {block.units['at'][row]}",
            )
            for row in wrong.tolist()
        ),
    )
    got[wrong] = False
    audit.row.units += int(got.sum())
    codes = actual["code"].astype(np.int64)
    if ext is not None:
        with_ext = np.flatnonzero(got & (codes <= MAX_ADDRESS))
        bitmaps = block.bitmaps[with_ext] if len(block.bitmaps) else np.zeros((len(with_ext), 0), np.uint8)
        codes[with_ext], read = ext.codes(
            audit, codes[with_ext], block.times[with_ext], bitmaps, path, places[with_ext]
        )
        got[with_ext[~read]] = False
        audit.ext_units += int(read.sum())
    other = np.flatnonzero(got & (codes != block.units["code"]))
    audit.found.each(
        len(other),
        (
            (path, int(places[row]) * UNIT_SIZE, f"the unit has tags code {codes[row]}, its record "
             f"{block.units['code'][row]}")
            for row in other.tolist()
        ),
    )  # fmt: skip


def _lack(audit: QueueAudit, missing: Ints, any_there: bool, there: Ints) -> None:
    """Count records without a unit, separately for the end of the queue."""
    if any_there:
        # A record with a unit follows the records that lacked a unit so far.
        _inside(audit, audit.behind, audit.behind_first)
        audit.behind, audit.behind_first = 0, -1
    if not len(missing):
        return
    if any_there:
        # Rows are in order, so rows behind the last row with a unit are at the end.
        last = int(there[-1])
        inside = int(min(len(missing), max(0, last + 1 - len(there))))
        if inside:
            _inside(audit, inside, int(missing[0]))
        missing = missing[inside:]
    if len(missing):
        audit.behind_first = int(missing[0]) if not audit.behind else audit.behind_first
        audit.behind += len(missing)


def _inside(audit: QueueAudit, count: int, first: int) -> None:
    if count:
        audit.lacking_first = first if not audit.lacking else audit.lacking_first
        audit.lacking += count


def _strangers(audit: QueueAudit, files: _Files, marks: Any, first: int, log_start: int, log_end: int) -> None:
    """Report units without a record, except units of deleted records. Also records the queue's offsets."""
    row = audit.row
    row.first, row.end = first, first
    begun = False
    for start in sorted(files.files):
        units = files.units(start)
        base = start // UNIT_SIZE
        sizes, offsets = units["size"], units["at"]
        filled = np.flatnonzero((sizes != 0) | (offsets != 0))
        real = filled[sizes[filled] != PRE_BLANK_SIZE]
        if len(filled):
            row.end = base + int(filled[-1]) + 1
        if len(real) and not begun:
            row.first, begun = base + int(real[0]), True
        strange = real[~marks[base + real - first]]
        broken = (offsets[strange] < 0) | (sizes[strange] <= 0)
        strange = strange[broken | (offsets[strange] >= log_start)]

        def sentence(place: int, units: Any = units) -> str:
            at, size = int(units["at"][place]), int(units["size"][place])
            if at < 0 or size <= 0:
                return f"the unit is invalid: offset {at}, size {size}"
            return f"the unit points to {at}, " + (
                f"the log ends at {log_end}" if at >= log_end else "no record of this queue"
            )

        path = str(files.files[start])
        audit.found.each(len(strange), ((path, place * UNIT_SIZE, sentence(place)) for place in strange.tolist()))
    if not begun:
        row.first = row.end


class _Ext:
    """The extension files of a queue. Only one is in memory at a time."""

    def __init__(self, folder: Path, shape: StoreShape) -> None:
        self.folder = folder
        self._size = shape.consume_queue_ext_segment_size
        self._files = {start: path for start, path, _ in segment_files(folder)}
        self._held: tuple[int, bytes] = (-1, b"")

    def codes(
        self, audit: QueueAudit, addresses: Ints, times: Ints, bitmaps: NDArray[np.uint8], path: str, places: Ints
    ) -> tuple[Ints, Any]:
        """Return the tags code at each address, and whether it could be read."""
        where = addresses + (1 << 62) + (1 << 62)  # an address is relative to Long.MIN_VALUE
        codes = np.zeros(len(where), np.int64)
        good = np.zeros(len(where), np.bool_)
        starts = where // self._size * self._size
        for start in np.unique(starts).tolist():
            rows = np.flatnonzero(starts == start)
            data = self._read(start)
            inside = rows[where[rows] - start + _EXT_HEAD.itemsize <= len(data)]
            heads = _heads(data, where[inside] - start)
            sizes = heads["size"].astype(np.int64)
            whole = (sizes > 0) & (sizes == _EXT_HEAD.itemsize + heads["bitmap"])
            whole &= where[inside] - start + sizes <= len(data)
            codes[inside], good[inside] = heads["code"], whole
            self._bits(audit, data, where - start, inside[whole], heads["bitmap"][whole], bitmaps, path, places)
            late = inside[whole & (heads["time"] != times[inside])]
            audit.found.each(
                len(late),
                (
                    (path, int(places[row]) * UNIT_SIZE, f"the unit's extension at {where[row]} has another record's "
                     "store time")
                    for row in late.tolist()
                ),
            )  # fmt: skip
        lost = np.flatnonzero(~good)
        audit.found.each(
            len(lost),
            (
                (path, int(places[row]) * UNIT_SIZE, f"the unit's extension at {where[row]} cannot be read")
                for row in lost.tolist()
            ),
        )
        return codes, good

    def _bits(
        self, audit: QueueAudit, data: bytes, at: Ints, rows: Ints, sizes: Any, bitmaps: NDArray[np.uint8], path: str,
        places: Ints,
    ) -> None:  # fmt: skip
        """Compare the bits of these units with the bits of filters, and with the bits that a broker must have set."""
        width = bitmaps.shape[1] // 2
        if not width or not len(rows):
            return
        actual = np.zeros((len(rows), width), np.uint8)
        full = np.flatnonzero(sizes == width)
        if len(full):
            count = len(data) - _EXT_HEAD.itemsize - width + 1
            all_bits: Any = np.ndarray((count, width), np.uint8, data, _EXT_HEAD.itemsize, (1, 1))
            actual[full] = all_bits[at[rows[full]]]
        asked, known = bitmaps[rows, :width], bitmaps[rows, width:]
        audit.strange_bits += int((actual & ~asked).any(axis=1).sum())
        lacking = rows[(known & ~actual).any(axis=1)]
        audit.found.each(
            len(lacking),
            (
                (path, int(places[row]) * UNIT_SIZE, f"the unit's extension at {int(at[row])} of its file lacks bits "
                 "of a filter that matches the record")
                for row in lacking.tolist()
            ),
        )  # fmt: skip

    def _read(self, start: int) -> bytes:
        if self._held[0] != start:
            path = self._files.get(start)
            self._held = (start, b"" if path is None or not os.path.exists(path) else path.read_bytes())
        return self._held[1]


def _heads(data: bytes, places: Ints) -> Any:
    """Return the heads of the extension units at these positions."""
    count = len(data) - _EXT_HEAD.itemsize + 1
    if count <= 0 or not len(places):
        return np.zeros(len(places), _EXT_HEAD)
    return np.ndarray((count,), _EXT_HEAD, data, strides=(1,))[places]
