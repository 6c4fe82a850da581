"""Compares an index file with the keys of the log's records, and checks its chains, by columns.

Part of `verify_job`. Entries are in log order, so both are read in parallel in blocks of limited size. A record that
was dispatched twice (after a crash) has its entries twice in a row, as Java's broker writes them, which is not a fault.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bolide.layout.index_file import (
    ENTRY_SIZE,
    HEADER_SIZE,
    IndexHeader,
    decode_index_header,
    entry_position,
    index_file_size,
)
from bolide.spark.dispatch.dispatch_parts import TAG_MARK, Entries, PartFiles
from bolide.spark.dispatch.index_pieces import ENTRY, chain, seconds_since
from bolide.spark.verify.verdict import Findings, IndexRow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bolide.layout.property_columns import Ints
    from bolide.layout.shape import StoreShape

BLOCK: Final = 1 << 20


@dataclass(frozen=True)
class IndexTask:
    """An index file with the physical offsets after `after`, up to `upto`. `following` starts with the rest of the last
    record if the file was full between two keys."""

    path: str
    following: str
    after: int
    upto: int
    counted_from: int
    """Base time in ms of the first entry: the end of the previous file, or 0 without one."""


@dataclass
class IndexAudit:
    """The findings of an index file."""

    row: IndexRow
    found: Findings = field(default_factory=Findings)
    last_offset: int = -1
    """Physical offset of the last entry's record, according to the header."""
    lacking: int = 0
    lacking_first: int = -1
    tags: int = 0
    """Number of existing entries for tags. `no_tags` counts the missing entries."""
    no_tags: int = 0
    no_tags_first: int = -1


def index_header(path: Path, shape: StoreShape) -> IndexHeader | None:
    """Return the header of an index file, or None if the file is too short for the header and its entries."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < entry_position(shape.index_slots, 1):
            return None
        header = decode_index_header(file.read(HEADER_SIZE))
    return header if size >= entry_position(shape.index_slots, int(header.index_count)) else None


def audit_index(parts: PartFiles, task: IndexTask, shape: StoreShape, log_start: int, log_end: int) -> IndexAudit:
    """Check the chains and slots of a file, and compare its entries with the log."""
    path = Path(task.path)
    audit = IndexAudit(IndexRow(path.name))
    size, whole = path.stat().st_size, index_file_size(shape.index_slots, shape.index_entries)
    if size != whole:
        audit.found.find(task.path, size, f"it has {size} bytes, an index file of this store has {whole}")
    header = index_header(path, shape)
    if header is None:
        audit.found.find(task.path, 0, "it is too short for the entries it counts: it is not checked")
        return audit
    audit.last_offset = int(header.end_physical_offset)
    count = int(header.index_count) - 1
    if not 0 <= count < shape.index_entries:
        audit.found.find(task.path, 36, f"the header counts {count + 1} entries, more than fit")
        return audit
    audit.row.entries = count
    _check_chains(audit, task.path, count, int(header.slot_count), shape)
    expected = _Expected(parts, task.after)
    for rows, position in _own_entries(audit, task, count, shape):
        some = expected.upto(int(rows["at"][-1]))
        _compare(audit, task.path, rows, position, some, log_start, log_end)
        first = position == entry_position(shape.index_slots, 1)
        own = rows[: (entry_position(shape.index_slots, count + 1) - position) // ENTRY_SIZE]
        _check_seconds(audit, task, own, position, some, int(header.begin_timestamp), first)
    _compare(audit, task.path, np.empty(0, ENTRY), 0, expected.upto(task.upto), log_start, log_end)
    return audit


def _check_seconds(
    audit: IndexAudit, task: IndexTask, rows: NDArray[Any], position: int, expected: Entries, begin: int, first: bool
) -> None:
    """Compare time fields of entries with the store times of their records; missing records are reported elsewhere.

    With `first`, the first of `rows` is the file's first entry. Its time is relative to the end of the previous file,
    which is unknown if that file is missing.
    """
    if not len(expected.offsets) or not len(rows):
        return
    at = rows["at"].astype(np.int64)
    found = np.minimum(np.searchsorted(expected.offsets, at), len(expected.offsets) - 1)
    there = expected.offsets[found] == at
    wanted = seconds_since(expected.times[found], begin)
    if first:
        wanted[0] = seconds_since(expected.times[found][:1], task.counted_from)[0]
        there[0] &= task.counted_from > 0 or int(rows["seconds"][0]) != 0
    wrong = np.flatnonzero(there & (rows["seconds"] != wanted))
    audit.found.each(
        len(wrong),
        (
            (
                task.path,
                position + row * ENTRY_SIZE,
                f"an entry says {rows['seconds'][row]} s after the file's begin, its record at {at[row]} was stored "
                f"{wanted[row]} s after it",
            )
            for row in wrong.tolist()
        ),
    )


def _check_chains(audit: IndexAudit, path: str, count: int, slot_count: int, shape: StoreShape) -> None:
    """Check each entry's predecessor, and the entries to which the slots point."""
    slots = np.zeros(shape.index_slots, np.int32)
    for rows, number in _read(path, count, shape):
        hashes = rows["hash"].astype(np.int32)
        wrong_hash = np.flatnonzero(hashes < 0)
        hashes[wrong_hash] = 0
        wanted = chain(hashes % np.int32(shape.index_slots), slots, number)
        wrong = np.flatnonzero(rows["previous"] != wanted)
        audit.found.each(
            len(wrong) + len(wrong_hash),
            (
                (
                    path,
                    entry_position(shape.index_slots, number + row),
                    f"entry {number + row} is chained to {rows['previous'][row]}, its slot held {wanted[row]}",
                )
                for row in wrong.tolist()
            ),
        )
    stored = np.fromfile(path, ">i4", shape.index_slots, offset=HEADER_SIZE)
    # Java treats the number of a future entry as an empty slot.
    other = np.flatnonzero((stored != slots) & ((slots != 0) | ((stored > 0) & (stored <= count))))
    audit.found.each(
        len(other),
        (
            (path, HEADER_SIZE + 4 * slot, f"slot {slot} holds entry {stored[slot]}, its newest is {slots[slot]}")
            for slot in other.tolist()
        ),
    )
    audit.row.slots = int(np.count_nonzero(slots))
    if audit.row.slots != slot_count:
        audit.found.find(path, 32, f"the header counts {slot_count} slots, {audit.row.slots} are used")


def _read(path: str, count: int, shape: StoreShape) -> Iterator[tuple[NDArray[Any], int]]:
    """Yield the entries of a file in blocks, each with the number of its first entry."""
    for number in range(1, count + 1, BLOCK):
        at = entry_position(shape.index_slots, number)
        yield np.fromfile(path, ENTRY, min(BLOCK, count + 1 - number), offset=at), number


def _own_entries(
    audit: IndexAudit, task: IndexTask, count: int, shape: StoreShape
) -> Iterator[tuple[NDArray[Any], int]]:
    """Yield the entries of the file's records in blocks of whole records, each with the byte of its first entry."""
    held, position = np.empty(0, ENTRY), 0
    last = -1
    for rows, number in _read(task.path, count, shape):
        back = np.flatnonzero(rows["at"] < np.append(last, rows["at"][:-1]))
        audit.found.each(
            len(back),
            (
                (task.path, entry_position(shape.index_slots, number + row), f"an entry points back to "
                 f"{rows['at'][row]}")
                for row in back.tolist()
            ),
        )  # fmt: skip
        last = int(rows["at"][-1])
        skip = int(np.count_nonzero(rows["at"] == task.after)) if number == 1 and rows["at"][0] == task.after else 0
        # The times of the rest of the previous file's last record are relative to its store time.
        audit.found.each(
            int(np.count_nonzero(rows["seconds"][:skip])),
            (
                (task.path, entry_position(shape.index_slots, number + row), f"an entry says {rows['seconds'][row]} s, "
                 "its record begins the file: 0 s")
                for row in np.flatnonzero(rows["seconds"][:skip]).tolist()
            ),
        )  # fmt: skip
        if not len(held):
            position = entry_position(shape.index_slots, number + skip)
        held = np.concatenate([held, rows[skip:]])
        whole = int(np.searchsorted(held["at"], last)) if not len(back) else 0
        if whole:
            yield held[:whole], position
            held, position = held[whole:], position + whole * ENTRY_SIZE
    following = index_header(Path(task.following), shape) if task.following else None
    if following is not None and len(held):
        more = int(following.index_count) - 1
        begin = next(_read(task.following, min(more, BLOCK), shape), (np.empty(0, ENTRY), 0))[0]
        held = np.concatenate([held, begin[begin["at"] == last]])
    if len(held):
        yield held, position


class _Expected:
    """Reads the log's entries in order, up to increasing physical offsets."""

    def __init__(self, parts: PartFiles, after: int) -> None:
        self._parts = parts
        self._total = parts.entries
        self._next = self._first_behind(after)

    def upto(self, offset: int) -> Entries:
        """Return the next entries, up to a physical offset."""
        found: list[Entries] = [self._parts.index_entries(0, 0)]
        while self._next < self._total:
            some = self._parts.index_entries(self._next, min(self._next + BLOCK, self._total))
            count = int(np.searchsorted(some.offsets, offset, "right"))
            found.append(Entries(some.hashes[:count], some.offsets[:count], some.times[:count]))
            self._next += count
            if count < len(some.offsets):
                break
        return Entries(
            np.concatenate([one.hashes for one in found]),
            np.concatenate([one.offsets for one in found]),
            np.concatenate([one.times for one in found]),
        )

    def _first_behind(self, offset: int) -> int:
        low, high = 0, self._total
        while low < high:
            middle = (low + high) // 2
            if int(self._parts.index_entries(middle, middle + 1).offsets[0]) <= offset:
                low = middle + 1
            else:
                high = middle
        return low


def _compare(
    audit: IndexAudit,
    path: str,
    rows: NDArray[Any],
    position: int,
    expected: Entries,
    log_start: int,
    log_end: int,
) -> None:
    """Compare entries of a file with the entries that the log requires in the same range."""
    hashes, offsets = expected.hashes, expected.offsets
    is_tag = hashes < 0
    wanted = hashes & ~TAG_MARK
    if len(rows) == len(wanted) and bool((rows["at"] == offsets).all()) and bool((rows["hash"] == wanted).all()):
        audit.tags += int(is_tag.sum())
        return
    stored = _pairs(rows["at"].astype(np.int64), rows["hash"].astype(np.int32))
    asked = _pairs(offsets, wanted)
    missing = ~np.isin(asked, stored)
    audit.tags += int((is_tag & ~missing).sum())
    no_tags = np.flatnonzero(missing & is_tag)
    if len(no_tags):
        audit.no_tags_first = int(offsets[no_tags[0]]) if not audit.no_tags else audit.no_tags_first
        audit.no_tags += len(no_tags)
    lacking = np.unique(offsets[missing & ~is_tag])
    if len(lacking):
        audit.lacking_first = int(lacking[0]) if not audit.lacking else audit.lacking_first
        audit.lacking += len(lacking)
    strange = np.flatnonzero(~np.isin(stored, asked) & (rows["at"] >= log_start))

    def sentence(row: int) -> str:
        at = int(rows["at"][row])
        return f"an entry points to {at}, " + ("beyond the log" if at >= log_end else "no record with such a key")

    audit.found.each(len(strange), ((path, position + row * ENTRY_SIZE, sentence(row)) for row in strange.tolist()))


def _pairs(offsets: Ints, hashes: NDArray[np.int32]) -> NDArray[Any]:
    """Encode offset and hash as one number. 31 bits of hash and the offset's low 33 bits are unique within a block."""
    return (offsets.astype(np.uint64) << np.uint64(31)) | hashes.astype(np.uint64)
