"""Second half of the dispatch job: the files of a queue, and an index file, out of parts.

The column twin of `dispatch.rebuild`: rules of RocketMQ's ConsumeQueue.putMessagePositionInfo, ConsumeQueueExt.put and
IndexFile.putKey. Files have the full size a broker gives them; what is not written stays a hole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bolide.dispatch.rebuild import Skipped
from bolide.layout.ext_unit import END_BLANK_SIZE, END_OF_FILE, ext_address
from bolide.layout.index_file import IndexHeader, index_file_size
from bolide.layout.queue_unit import PRE_BLANK, UNIT_SIZE
from bolide.spark.dispatch_parts import (
    UNIT,
    PartSummary,
    QueueRows,
    QueueRun,
    joined,
    read_entries,
    read_run,
    write_new,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bolide.layout.property_columns import Ints
    from bolide.layout.shape import StoreShape

_EXT: Final = (("size", ">i2"), ("code", ">i8"), ("time", ">i8"), ("bitmap", ">i2"))
_ENTRY: Final = np.dtype([("hash", ">i4"), ("at", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])
_INT_MAX: Final = 0x7FFFFFFF

Runs = Sequence[tuple[PartSummary, QueueRun]]


def write_queue(
    folder: str, runs: Runs, shape: StoreShape, filtered: Collection[str] = ()
) -> tuple[int, list[Skipped]]:
    """Write all files of one queue below `folder`; how many units, and what was passed over or stands oddly.

    Topics in `filtered` have filters, so that their extension units have bitmaps.
    """
    ext = shape.enable_consume_queue_ext
    read = [read_run(part, run) for part, run in runs]
    units: NDArray[Any] = joined([one.units for one in read], UNIT)
    offsets: Ints = np.concatenate([one.offsets for one in read])
    topic, queue_id = runs[0][1].topic, runs[0][1].queue_id
    skipped: list[Skipped] = []
    if not bool((np.diff(offsets) == 1).all()):
        keep, skipped = _as_dispatch_would(f"{topic} queue {queue_id}", units, offsets)
        # An extension unit is put before its queue unit is found to be there already, so none is left out.
        addresses = np.arange(len(units))[keep]
    else:
        keep = addresses = np.arange(len(units))
    if ext:
        addresses = _write_ext(f"{folder}/consumequeue_ext/{topic}/{queue_id}", read, shape, topic in filtered)[
            addresses
        ]
    units = units[keep]
    if ext:
        units = units.copy()
        units["code"] = addresses
    for start, data in _segments(units, int(offsets[0]), shape.consume_queue_segment_size):
        path = f"{folder}/consumequeue/{topic}/{queue_id}/{start:020d}"
        write_new(path, [data], shape.consume_queue_segment_size)
    return len(units), skipped


def _segments(units: NDArray[Any], begin_offset: int, segment_size: int) -> Iterator[tuple[int, bytes]]:
    """Start and bytes of each queue file; the first is filled up to the first queue offset."""
    start = begin_offset * UNIT_SIZE // segment_size * segment_size
    blank = begin_offset - start // UNIT_SIZE
    per_file = segment_size // UNIT_SIZE
    first = units[: per_file - blank]
    yield start, PRE_BLANK * blank + first.tobytes()
    for number, at in enumerate(range(len(first), len(units), per_file), 1):
        yield start + number * segment_size, units[at : at + per_file].tobytes()


def _as_dispatch_would(name: str, units: NDArray[Any], offsets: Ints) -> tuple[Ints, list[Skipped]]:
    """Rows a broker would write when queue offsets do not rise by one, and what it would log."""
    end = int(offsets[0])
    kept = []
    skipped = []
    for row, wanted in enumerate(offsets.tolist()):
        at, size = int(units["at"][row]), int(units["size"][row])
        if wanted and wanted < end:
            skipped.append(Skipped(at, size, f"{name} has a unit for queue offset {wanted} already"))
            continue
        if wanted != end:
            skipped.append(Skipped(at, size, f"{name} ends at {end}, the record says {wanted}"))
        kept.append(row)
        end += 1
    return np.array(kept, np.int64), skipped


def _write_ext(folder: str, read: Sequence[QueueRows], shape: StoreShape, bitmaps: bool) -> Ints:
    """Write the extension files of one queue, with bitmaps or without; the address of each unit."""
    size = shape.consume_queue_ext_segment_size
    width = read[0].bitmaps.shape[1] if bitmaps else 0
    kind = np.dtype([*_EXT, ("bits", np.uint8, (width,))])
    per_file = (size - END_BLANK_SIZE) // kind.itemsize
    made = np.zeros(sum(len(one.units) for one in read), kind)
    made["size"], made["bitmap"] = kind.itemsize, width
    made["code"] = np.concatenate([one.units["code"] for one in read])
    made["time"] = np.concatenate([one.times for one in read])
    if width:
        made["bits"] = np.concatenate([one.bitmaps for one in read])
    for number, at in enumerate(range(0, len(made), per_file)):
        more = at + per_file < len(made)
        buffers = [made[at : at + per_file].tobytes(), END_OF_FILE if more else b""]
        write_new(f"{folder}/{number * size:020d}", buffers, size)
    rows = np.arange(len(made), dtype=np.int64)
    addresses: Ints = rows // per_file * size + rows % per_file * kind.itemsize + ext_address(0)
    return addresses


def index_file_count(parts: Sequence[PartSummary], shape: StoreShape) -> int:
    """Index files of the whole log: a record behind a full file begins the next, whether it has keys or not."""
    total = sum(part.entries for part in parts)
    records = sum(part.records for part in parts)
    files, rest = divmod(total, shape.index_entries - 1)
    last = max((part.last_offset for part in parts), default=-1)
    last_entry = max((part.last_entry_offset for part in parts), default=-1)
    return files + (1 if rest or (records and last > last_entry) else 0)


def write_index(folder: str, parts: Sequence[PartSummary], number: int, name: str, shape: StoreShape) -> IndexHeader:
    """Write index file `number` of the log, under a name; its header."""
    most = shape.index_entries - 1
    first = number * most
    before = read_entries(parts, first - 1, first) if first else None
    entries = read_entries(parts, first, first + most)
    header = IndexHeader()
    if before is not None:
        # A new file is preset from the one before, and its first entry's time still counted from there.
        header.begin_timestamp = header.end_timestamp = int(before["time"][0])
        header.begin_physical_offset = header.end_physical_offset = int(before["at"][0])
    made = np.zeros(len(entries) + 1, _ENTRY)
    slots = np.zeros(shape.index_slots, ">i4")
    if len(entries):
        rows = made[1:]
        rows["hash"], rows["at"] = entries["hash"], entries["at"]
        times = entries["time"]
        rows["seconds"] = _seconds(times, int(times[0]))
        rows["seconds"][0] = _seconds(times[:1], int(header.begin_timestamp))[0]
        header.slot_count = _chain(rows, slots)
        header.begin_timestamp, header.end_timestamp = int(times[0]), int(times[-1])
        header.begin_physical_offset, header.end_physical_offset = int(entries["at"][0]), int(entries["at"][-1])
        header.index_count = len(entries) + 1
    size = index_file_size(shape.index_slots, shape.index_entries)
    write_new(f"{folder}/index/{name}", [header.encode(), slots.tobytes(), made.tobytes()], size)
    return header


def _chain(rows: NDArray[Any], slots: NDArray[Any]) -> int:
    """Set each entry's predecessor in its slot's chain, and each slot to its newest entry; how many are used."""
    slot = rows["hash"].astype(np.int64) % len(slots)
    order = np.argsort(slot, kind="stable")
    ordered = slot[order]
    same = ordered[1:] == ordered[:-1]
    previous = np.zeros(len(rows), np.int64)
    previous[order[1:][same]] = order[:-1][same] + 1
    rows["previous"] = previous
    newest = np.append(~same, True)
    slots[ordered[newest]] = order[newest] + 1
    return int(newest.sum())


def _seconds(times: Ints, begin: int) -> Ints:
    """Time fields of entries: whole seconds since the file's begin, 0 in a file that has none yet."""
    if begin <= 0:
        return np.zeros(len(times), np.int64)
    seconds: Ints = np.clip((times - begin) // 1000, 0, _INT_MAX)
    return seconds
