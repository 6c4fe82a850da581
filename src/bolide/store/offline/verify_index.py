"""Checks the index files against the keys of the log's records, and their chains. Part of `verify`.

Entries are in log order, so both are read in parallel. A record that was dispatched twice (after a crash) has its
entries twice in a row, as Java's broker writes them. This is not an error.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from typing import Final

from bolide.dispatch.row import Dispatch, in_index, index_keys
from bolide.layout.hashes import index_hash
from bolide.layout.index_file import (
    ENTRY_SIZE,
    HEADER_SIZE,
    SLOT_SIZE,
    decode_index_header,
    entry_position,
    index_file_size,
    read_entry,
    slot_position,
)
from bolide.layout.shape import StoreShape
from bolide.store.disk.files import Files
from bolide.store.offline.walk import read_whole

_ENTRIES = 50_000


SLOT_COUNT_AT: Final = 32
"""Position of the number of used slots in the header."""


class Chains:
    """The chains of one index file, computed from its entries. Needs an int32 per slot."""

    def __init__(self, slots: int) -> None:
        self._newest = array("i", bytes(SLOT_SIZE * slots))

    def add(self, number: int, key_hash: int, previous: int) -> str:
        """Add the next entry. Return why it is not chained to the one before it in its slot, or ""."""
        slot = key_hash % len(self._newest)
        before = self._newest[slot]
        self._newest[slot] = number
        return "" if previous == before else f"entry {number} is chained to {previous}, its slot held {before}"

    def newest(self, key_hash: int) -> int:
        """Return the number of the newest entry in the slot of a hash, or 0."""
        return self._newest[key_hash % len(self._newest)]

    def slot_faults(self, data: bytes, first: int, index_count: int) -> list[tuple[int, str]]:
        """Compare slots of a full or closed file, starting at slot `first`. Return position and sentence of each
        fault."""
        on_disk = array("i", data)
        if sys.byteorder == "little":
            on_disk.byteswap()
        newest = self._newest[first : first + len(on_disk)]
        if on_disk == newest:
            return []
        # Java treats a slot with the number of a missing entry as empty.
        return [
            (slot_position(slot), f"slot {slot} holds entry {found}, its newest is {wanted}")
            for slot, (found, wanted) in enumerate(zip(on_disk, newest, strict=True), first)
            if found != wanted and (wanted or 0 < found < index_count)
        ]

    def count_fault(self, slot_count: int) -> str:
        """Return why the number of used slots in the header is wrong, or ""."""
        used = len(self._newest) - self._newest.count(0)
        return "" if used == slot_count else f"the header counts {slot_count} slots, {used} are used"


class IndexCheck:
    """Checks the index. Call `expect` for every record in the order of the log, then `finish`."""

    def __init__(self, files: Files, folder: str, shape: StoreShape) -> None:
        self.entries = 0
        self.findings: list[tuple[str, int, str]] = []
        """Path of a file, position in it in bytes, and a sentence."""
        self.missing: list[int] = []
        """Physical offsets of records whose keys are missing in the index."""
        self.missing_tail = 0
        self.notes: list[str] = []
        self._files = files
        self._shape = shape
        self._folder = folder
        self._with_tags = 0
        self._without_tags = 0
        self._groups = self._read_groups()
        self._group: tuple[int, list[int], str, int] | None = next(self._groups, None)
        self._begin = self._group[0] if self._group is not None else 0
        self._alone: list[tuple[int, str, int]] = []
        self._lacking_tags: list[int] = []
        self._last = -1

    def expect(self, d: Dispatch) -> None:
        """Process the next record of the log."""
        if not self._shape.index_enabled or not in_index(d) or d.physical_offset < self._begin:
            return
        keys = index_keys(d.topic, d.uniq_key, d.keys, d.tags, True)
        if not keys:
            return
        wanted = [index_hash(key) for key in keys]
        group = self._group
        while group is not None and group[0] < d.physical_offset:
            self._alone.append((group[0], group[2], group[3]))
            group = next(self._groups, None)
        self._group = group
        if group is None or group[0] > d.physical_offset:
            only_tags = bool(d.tags) and len(wanted) == 1
            (self._lacking_tags if only_tags else self.missing).append(d.physical_offset)
            return
        self._last = d.physical_offset
        self._group = next(self._groups, None)
        if _repeats(group[1], wanted):
            self._with_tags += bool(d.tags)
        elif d.tags and _repeats(group[1], wanted[:-1]):
            self._without_tags += 1
        else:
            sentence = f"the entries of the record at {d.physical_offset} are not those of its {len(wanted)} keys"
            self.findings.append((group[2], group[3], sentence))

    def finish(self, log_start: int, log_end: int) -> None:
        """Check the entries that match no record."""
        while self._group is not None:
            self._alone.append((self._group[0], self._group[2], self._group[3]))
            self._group = next(self._groups, None)
        for physical_offset, path, position in self._alone:
            if physical_offset >= log_end:
                self.findings.append((path, position, f"an entry points to {physical_offset}, beyond the log"))
            elif physical_offset >= log_start:
                self.findings.append((path, position, f"an entry points to {physical_offset}, no record with keys"))
        if self._without_tags and self._with_tags:
            sentence = f"{self._without_tags} tagged records have no entry for their tags"
            self.findings.append((self._folder, 0, sentence))
        if self._with_tags:
            self.missing = sorted(self.missing + self._lacking_tags)
        elif self._without_tags and self._shape.tags_in_index:
            self.notes.append("no tagged record has an entry for its tags: the index was written by the rules of 4.9")
        self.missing_tail = sum(physical_offset > self._last for physical_offset in self.missing)

    def _read_groups(self) -> Iterator[tuple[int, list[int], str, int]]:
        """Yield physical offset, key hashes, file and byte of the entries of each record."""
        held: tuple[int, list[int], str, int] | None = None
        for name in self._files.list_dir(self._folder):
            path = f"{self._folder}/{name}"
            for physical_offset, key_hash, position in self._read_file(path):
                if held is not None and held[0] == physical_offset:
                    held[1].append(key_hash)
                    continue
                if held is not None:
                    if physical_offset < held[0]:
                        sentence = f"an entry points back to {physical_offset}, the one before to {held[0]}"
                        self.findings.append((path, position, sentence))
                    yield held
                held = (physical_offset, [key_hash], path, position)
        if held is not None:
            yield held

    def _read_file(self, path: str) -> Iterator[tuple[int, int, int]]:
        """Yield the entries of one file, and check its chains, slots and counts."""
        slots = self._shape.index_slots
        size, wanted = self._files.size(path), index_file_size(slots, self._shape.index_entries)
        if size < wanted:
            self.findings.append((path, max(size, 0), f"the file ends at byte {size}, an index file has {wanted}"))
            return
        header = decode_index_header(read_whole(self._files, path, HEADER_SIZE))
        if header.index_count > self._shape.index_entries:
            self.findings.append((path, 36, f"the header counts {header.index_count} entries, more than fit"))
            return
        chains = Chains(slots)
        for first in range(1, header.index_count, _ENTRIES):
            count = min(_ENTRIES, header.index_count - first)
            base = entry_position(slots, first)
            data = read_whole(self._files, path, count * ENTRY_SIZE, base)
            for i in range(count):
                entry = read_entry(data, i * ENTRY_SIZE)
                position = base + i * ENTRY_SIZE
                fault = chains.add(first + i, entry.key_hash, entry.previous)
                if fault:
                    self.findings.append((path, position, fault))
                self.entries += 1
                yield entry.physical_offset, entry.key_hash, position
        on_disk = read_whole(self._files, path, SLOT_SIZE * slots, HEADER_SIZE)
        for position, sentence in chains.slot_faults(on_disk, 0, header.index_count):
            self.findings.append((path, position, sentence))
        fault = chains.count_fault(header.slot_count)
        if fault:
            self.findings.append((path, SLOT_COUNT_AT, fault))


def _repeats(found: list[int], wanted: list[int]) -> bool:
    """Return whether `found` is `wanted` repeated one or more times."""
    times, rest = divmod(len(found), max(1, len(wanted)))
    return bool(wanted) and rest == 0 and times > 0 and found == wanted * times
