"""Second half of the dispatch job: writes or extends the files of a queue from part files.

Like `dispatch.rebuild`, but by columns. Follows RocketMQ's ConsumeQueue.putMessagePositionInfo and ConsumeQueueExt.put.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bolide.dispatch.multi import is_lmq
from bolide.dispatch.rebuild import Skipped
from bolide.layout.ext_unit import END_BLANK_SIZE, END_OF_FILE, ext_address
from bolide.layout.queue_unit import PRE_BLANK, UNIT_SIZE
from bolide.spark.dispatch.dispatch_parts import PartFiles, QueueRows, raw_bytes
from bolide.spark.dispatch.dispatch_state import QueueEnd

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bolide.layout.property_columns import Ints
    from bolide.layout.shape import StoreShape
    from bolide.spark.dispatch.output_files import OutputFiles

_EXT: Final = (("size", ">i2"), ("code", ">i8"), ("time", ">i8"), ("bitmap", ">i2"))
BLOCK: Final = 1 << 20
"""Number of units to read and write at a time."""


@dataclass(frozen=True)
class QueueTask:
    """The units of a queue in all parts, in the order of the log: runs (part, first, count, begin) as an array.

    `end` is the current end of its files, or None if it has no files.
    """

    topic: str
    queue_id: int
    runs: NDArray[Any]
    end: QueueEnd | None = None

    @property
    def units(self) -> int:
        """Number of units."""
        return int(self.runs["count"].sum())


@dataclass(frozen=True)
class WrittenQueue:
    """The new end of a queue, the number of written units, and the skipped and out-of-sequence units."""

    end: QueueEnd
    units: int
    skipped: list[Skipped]


def write_queue(
    out: OutputFiles, parts: PartFiles, task: QueueTask, shape: StoreShape, filtered: Collection[str] = ()
) -> WrittenQueue:
    """Write the units of a queue from all parts.

    The extension units of topics in `filtered` have bitmaps. The function needs memory for one block of units.
    """
    size = shape.consume_queue_segment_size
    begin = int(task.runs["begin"][0]) if task.end is None else task.end.units
    start = begin * UNIT_SIZE // size * size
    if task.end is None and (blank := begin * UNIT_SIZE - start):
        out.write(_name(task, start), 0, [PRE_BLANK * (blank // UNIT_SIZE)], size)
    with_ext = shape.enable_consume_queue_ext and not is_lmq(task.topic)  # units of a light queue contain tags codes
    end, ext = begin, 0 if task.end is None else task.end.ext
    skipped: list[Skipped] = []
    for block in queue_blocks(parts, task):
        keep, odd = kept_rows(task, block, end)
        skipped += odd
        units = block.units
        if with_ext:
            # Write all extension units, because a broker writes them before it finds that a queue unit exists.
            units = units.copy()
            units["code"] = _write_ext(out, task, block, shape, ext, task.topic in filtered)
            ext += len(units)
        end = _write_units(out, task, end, raw_bytes(units if keep is None else units[keep]), size)
    return WrittenQueue(QueueEnd(start if task.end is None else task.end.start, end, ext), end - begin, skipped)


def queue_blocks(parts: PartFiles, task: QueueTask) -> Iterator[QueueRows]:
    """Yield the units of a queue in each part, in pieces of limited size."""
    for part, first, count, _ in task.runs.tolist():
        for at in range(first, first + count, BLOCK):
            yield parts.run(part, at, min(BLOCK, first + count - at))


def kept_rows(task: QueueTask, block: QueueRows, end: int) -> tuple[Ints | None, list[Skipped]]:
    """Return the units that a broker would write after queue offset `end`, or None for all in order, and the units that
    it would skip or log."""
    if bool((block.offsets == np.arange(end, end + len(block.offsets))).all()):
        return None, []
    kept = []
    skipped = []
    name = f"{task.topic} queue {task.queue_id}"
    places = zip(block.offsets.tolist(), block.units["at"].tolist(), block.units["size"].tolist(), strict=True)
    for row, (wanted, at, size) in enumerate(places):
        if wanted and wanted < end:
            skipped.append(Skipped(at, size, f"{name} has a unit for queue offset {wanted} already"))
            continue
        if wanted != end:
            skipped.append(Skipped(at, size, f"{name} ends at {end}, the record says {wanted}"))
        kept.append(row)
        end += 1
    return np.array(kept, np.int64), skipped


def ext_kind(width: int) -> np.dtype[Any]:
    """Return the numpy type of an extension unit with a bitmap of `width` bytes."""
    return np.dtype([*_EXT, ("bits", np.uint8, (width,))])


def ext_units(block: QueueRows, bitmaps: bool) -> NDArray[Any]:
    """Return the extension units of rows of a queue."""
    width = block.bitmaps.shape[1] if bitmaps else 0
    kind = ext_kind(width)
    made = np.zeros(len(block.units), kind)
    made["size"], made["bitmap"] = kind.itemsize, width
    made["code"], made["time"] = block.units["code"], block.times
    if width:
        made["bits"] = block.bitmaps
    return made


def ext_addresses(first: int, count: int, unit_size: int, segment_size: int) -> Ints:
    """Return the addresses of `count` extension units of a queue, starting at number `first`."""
    per_file = (segment_size - END_BLANK_SIZE) // unit_size
    numbers = np.arange(first, first + count, dtype=np.int64)
    addresses: Ints = numbers // per_file * segment_size + numbers % per_file * unit_size + ext_address(0)
    return addresses


def _write_ext(
    out: OutputFiles, task: QueueTask, block: QueueRows, shape: StoreShape, before: int, bitmaps: bool
) -> Ints:
    """Write extension units after the `before` existing units of a queue. Returns their addresses."""
    size = shape.consume_queue_ext_segment_size
    made = ext_units(block, bitmaps)
    unit_size = made.dtype.itemsize
    per_file = (size - END_BLANK_SIZE) // unit_size
    folder = f"consumequeue_ext/{task.topic}/{task.queue_id}"
    done = 0
    while done < len(made):
        number, place = divmod(before + done, per_file)
        count = min(per_file - place, len(made) - done)
        if number and not place:
            out.write(f"{folder}/{(number - 1) * size:020d}", per_file * unit_size, [END_OF_FILE], size)
        data = raw_bytes(made[done : done + count])
        out.write(f"{folder}/{number * size:020d}", place * unit_size, [data], size)
        done += count
    return ext_addresses(before, len(made), unit_size, size)


def _write_units(out: OutputFiles, task: QueueTask, begin: int, data: memoryview, size: int) -> int:
    """Write units starting at queue offset `begin`. Returns the offset after them."""
    at = begin * UNIT_SIZE
    done = 0
    while done < len(data):
        start = (at + done) // size * size
        count = min(start + size - at - done, len(data) - done)
        out.write(_name(task, start), at + done - start, [data[done : done + count]], size)
        done += count
    return begin + len(data) // UNIT_SIZE


def _name(task: QueueTask, start: int) -> str:
    return f"consumequeue/{task.topic}/{task.queue_id}/{start:020d}"
