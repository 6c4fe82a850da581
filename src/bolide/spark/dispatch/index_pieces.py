"""Second half of the dispatch job: writes pieces of index files in parallel.

Follows RocketMQ's IndexFile.putKey. An entry's predecessor in its slot's chain may be in an earlier piece, so each
piece first fills the slots from the earlier hashes, at a cost of a few nanoseconds per entry. The last piece of a file
writes slots and header.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bolide.layout.index_file import HEADER_SIZE, IndexHeader, entry_position, index_file_size
from bolide.spark.dispatch.dispatch_parts import Entries, PartFiles, raw_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bolide.layout.property_columns import Ints
    from bolide.layout.shape import StoreShape
    from bolide.spark.dispatch.output_files import OutputFiles

ENTRY: Final = np.dtype([("hash", ">i4"), ("at", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])
BLOCK: Final = 1 << 16
"""Number of entries to chain at a time: few of them share a slot, and the data fits into the cache."""
READ: Final = 1 << 18
"""Number of entries to read and write at a time. The memory of their columns, 5 MB, is reused."""
PIECE: Final = 1 << 21
"""Minimum number of entries of a piece, because each piece processes all earlier hashes."""
_INT_MAX: Final = 0x7FFFFFFF


@dataclass(frozen=True)
class IndexPiece:
    """Entries [first, end) of the parts, for one index file.

    `file_first` is the file's first entry in the parts, `existing` the number of its older entries, whose header is in
    `begin`.
    """

    name: str
    first: int
    end: int
    file_first: int
    existing: int
    last: bool
    begin_timestamp: int
    """Base of times in ms: the time of the file's first entry, or the end of the previous file without an entry."""
    begin_offset: int

    @property
    def files(self) -> int:
        """Number of files for progress: 1 if the piece completes a file, otherwise 0."""
        return int(self.last)


def write_index(out: OutputFiles, parts: PartFiles, piece: IndexPiece, shape: StoreShape) -> None:
    """Write a piece. Needs memory for the slots, one block of entries, and the earlier hashes."""
    name = f"index/{piece.name}"
    size = index_file_size(shape.index_slots, shape.index_entries)
    header = IndexHeader()
    header.begin_timestamp = header.end_timestamp = piece.begin_timestamp
    header.begin_physical_offset = header.end_physical_offset = piece.begin_offset
    slots = _slots(out.path(name), piece, shape)
    number = piece.existing + 1
    for at in range(piece.file_first, piece.first, READ):
        hashes = parts.hashes(at, min(at + READ, piece.first))
        slots[hashes % shape.index_slots] = np.arange(number, number + len(hashes), dtype=np.int32)
        number += len(hashes)
    begin = piece.begin_timestamp
    if piece.file_first < piece.first and not piece.existing:
        begin = int(parts.index_entries(piece.file_first, piece.file_first + 1).times[0])
    for at in range(piece.first, piece.end, READ):
        entries = parts.index_entries(at, min(at + READ, piece.end))
        rows, begin = entry_rows(entries, slots, number, begin)
        out.write(name, entry_position(shape.index_slots, number), [raw_bytes(rows)], size)
        number += len(rows)
        header.end_timestamp, header.end_physical_offset = int(entries.times[-1]), int(entries.offsets[-1])
    if piece.last:
        if not piece.existing and piece.file_first < piece.end:
            one = parts.index_entries(piece.file_first, piece.file_first + 1)
            header.begin_timestamp, header.begin_physical_offset = int(one.times[0]), int(one.offsets[0])
        header.index_count, header.slot_count = number, int(np.count_nonzero(slots))
        if piece.existing:
            out.sync()  # a slot must never point to an entry that a power failure lost
        out.write(name, 0, [header.encode(), raw_bytes(slots.astype(">i4"))], size)


def entry_rows(entries: Entries, slots: NDArray[np.int32], number: int, begin: int) -> tuple[NDArray[Any], int]:
    """Return entries in stored form, the first with this number, and the base of later times.

    Updates `slots`, which contain the newest entry of each slot.
    """
    count = len(entries.hashes)
    rows = np.empty(count, ENTRY)
    rows["hash"], rows["at"] = entries.hashes, entries.offsets
    if number == 1 and count:
        # The time of a file's first entry is relative to the end of the previous file.
        rows["seconds"] = seconds_since(entries.times, int(entries.times[0]))
        rows["seconds"][0] = seconds_since(entries.times[:1], begin)[0]
        begin = int(entries.times[0])
    else:
        rows["seconds"] = seconds_since(entries.times, begin)
    slot_of = entries.hashes % np.int32(len(slots))
    for at in range(0, count, BLOCK):
        rows["previous"][at : at + BLOCK] = chain(slot_of[at : at + BLOCK], slots, number + at)
    return rows, begin


def chain(slot_of: NDArray[np.int32], slots: NDArray[np.int32], number: int) -> NDArray[np.int32]:
    """Return the predecessor of each entry, and set each slot to its newest entry."""
    numbers = np.arange(number, number + len(slot_of), dtype=np.int32)
    previous = slots[slot_of]
    slots[slot_of] = numbers  # the last of several entries for a slot remains
    newest = slots[slot_of]
    passed = np.flatnonzero(newest != numbers)
    if len(passed):
        # Only these entries and the newest of their slots share a slot with other entries of the block.
        shares = np.zeros(len(slot_of), np.bool_)
        shares[passed] = shares[newest[passed] - number] = True
        shared = np.flatnonzero(shares)
        order = shared[np.argsort(slot_of[shared], kind="stable")]
        same = slot_of[order[1:]] == slot_of[order[:-1]]
        previous[order[1:][same]] = numbers[order[:-1][same]]
    return previous


def _slots(path: str, piece: IndexPiece, shape: StoreShape) -> NDArray[np.int32]:
    """Return the slots before the parts' entries: all unused, or from the file."""
    if not piece.existing:
        return np.zeros(shape.index_slots, np.int32)
    found = np.fromfile(path, ">i4", shape.index_slots, offset=HEADER_SIZE).astype(np.int32)
    # After a crash, slots may point to entries of an unfinished batch: reset them to the state before it.
    ahead = np.flatnonzero(found > piece.existing)
    if len(ahead):
        stored = np.memmap(path, ENTRY, "r", HEADER_SIZE + 4 * shape.index_slots, (shape.index_entries,))
        while len(ahead):
            found[ahead] = stored["previous"][found[ahead]]
            ahead = ahead[found[ahead] > piece.existing]
    return found


def seconds_since(times: Ints, begin: int) -> Ints:
    """Return the time fields of entries: whole seconds since the file's begin time, or 0 in a file without one."""
    if begin <= 0:
        return np.zeros(len(times), np.int64)
    seconds: Ints = np.clip((times - begin) // 1000, 0, _INT_MAX)
    return seconds


def plan_index(
    parts: PartFiles,
    before: int,
    names: Sequence[str],
    first_header: tuple[int, int],
    shape: StoreShape,
    pieces: int,
) -> list[IndexPiece]:
    """Return the pieces of the files `names`. The first file continues after entry `before` of all files.

    `first_header` contains begin time and physical offset of that file.
    """
    most = shape.index_entries - 1
    total = parts.entries
    found: list[IndexPiece] = []
    existing, at = before % most, 0
    for number, name in enumerate(names):
        if number == 0:
            begin_timestamp, begin_offset = first_header
        else:
            one = parts.index_entries(at - 1, at)
            begin_timestamp, begin_offset = int(one.times[0]), int(one.offsets[0])
        end = min(at + most - existing, total)
        whole = IndexPiece(name, at, end, at, existing, True, begin_timestamp, begin_offset)
        # Use one task to extend an existing file, because it reads the slots that the last piece writes.
        count = 1 if existing else max(1, min(pieces, (end - at) // PIECE))
        cuts = [at + (end - at) * i // count for i in range(count)] + [end]
        found += [replace(whole, first=a, end=b, last=b == end) for a, b in pairwise(cuts)]
        existing, at = 0, end
    return found
