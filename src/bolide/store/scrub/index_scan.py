"""Compares index entries with the keys of a window's records. Part of the scrub.

Entries are in the order of the log, so a window continues after the last entry of the one before. Only entries that
exist are checked: a record without entries is not damage, because a broker can run without the index.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Final

from bolide.layout.index_file import (
    ENTRY_SIZE,
    HEADER_SIZE,
    SLOT_SIZE,
    IndexEntry,
    IndexHeader,
    entry_position,
    entry_seconds,
    read_entry,
    slot_position,
)
from bolide.store.offline.verify_index import SLOT_COUNT_AT, Chains
from bolide.store.scrub.finding import Damage, DamageKind
from bolide.store.scrub.paced_reader import Gone, PacedReader
from bolide.store.scrub.window import LogWindow

CHUNK_ENTRIES: Final = 400
CHUNK_SLOTS: Final = 4096
AHEAD: Final = 8
"""Number of consecutive entries of later records after which the entries of a window have ended: an entry with a
damaged offset is followed by others of the window."""
MEDIAN_OF: Final = 15
"""A search uses the median of this number of entries, because one of them may be damaged."""


@dataclass(frozen=True)
class IndexPart:
    """The state of an index file at the start of the scan."""

    path: str
    """Relative to the store."""
    slots: int
    count: int
    """Number after the last entry in the file."""
    complete: bool
    """Whether the file is full and its slots are written, so that it no longer changes."""
    header: IndexHeader
    """The header of a complete file, as the broker has it in memory."""


@dataclass
class IndexCursor:
    """Position in the index after the last window. Kept in memory only."""

    path: str = ""
    number: int = 1
    """Number of the next entry."""
    log_offset: int = -1
    """End of the last window, a physical offset."""
    chains: Chains | None = None
    """The chains of the file up to `number`, or None if the scan did not start at its first entry."""


class IndexScan:
    """The scan of the entries of one window. `log`: first and last physical offset of records in the log."""

    def __init__(
        self, root: str, window: LogWindow, parts: list[IndexPart], cursor: IndexCursor, log: tuple[int, int]
    ) -> None:
        self.findings: list[tuple[str, Damage]] = []
        """Path of the index file and finding, for damage that belongs to no record."""
        self.entries: list[tuple[str, int, Damage]] = []
        """Path of the index file, physical offset of a record, and the entry that differs from it."""
        self.misplaced: list[tuple[str, int, str]] = []
        """Path of the index file, physical offset of a damaged record, and a sentence."""
        self._root = root
        self._window = window
        self._parts = parts
        self._cursor = cursor
        self._log = log
        self._exact = False
        """Whether all entries from here on belong to the window or to later ones."""
        self._later: list[tuple[int, IndexEntry]] = []
        self._at = window.start
        """Physical offset of the last record whose entry was checked."""

    def steps(self, reader: PacedReader) -> Iterator[None]:
        """Check the entries. Yields after each read. Raises `FileFailed`."""
        for part in self._parts:
            try:
                if (yield from self._file(reader, part)):
                    break
            except Gone as gone:
                missing = Damage(DamageKind.MISSING, part.path, gone.position, 0, self._at, str(gone))
                self.findings.append((part.path, missing))
                self._cursor.path = ""
        self._cursor.log_offset = self._window.stop

    def _file(self, reader: PacedReader, part: IndexPart) -> Generator[None, None, bool]:
        """Check the entries of one file. Returns whether the entries of the window have ended in it."""
        cursor = self._cursor
        if cursor.path != part.path or cursor.log_offset != self._window.start:
            number = self._first(reader, part)
            cursor.path, cursor.number = part.path, number
            cursor.chains = Chains(part.slots) if number == 1 else None
        else:
            self._exact = True
        self._later = []
        while cursor.number < part.count:
            first = cursor.number
            count = min(CHUNK_ENTRIES, part.count - first)
            position = entry_position(part.slots, first)
            data = reader.read(f"{self._root}/{part.path}", count * ENTRY_SIZE, position)
            self._unread(reader, part)
            for number in range(first, first + count):
                if self._take(part, number, read_entry(data, (number - first) * ENTRY_SIZE)):
                    cursor.number = self._later[0][0]
                    return True
            cursor.number = first + count
            yield
        if self._later:
            cursor.number = self._later[0][0]
            return True
        self._exact = True
        if part.complete:
            yield from self._slots(reader, part)
        return False

    # -- entries --

    def _take(self, part: IndexPart, number: int, entry: IndexEntry) -> bool:
        """Check an entry, or hold it back if it may belong to a later window. Return whether the window has ended."""
        window, offset = self._window, int(entry.physical_offset)
        of_window = offset in window.keyed or window.is_damaged(offset)
        if window.stop <= offset < self._log[1] or (self._later and not of_window):
            self._later.append((number, entry))
            return len(self._later) >= AHEAD
        held, self._later = self._later, []
        for before, one in held:
            self._check(part, before, one)
        self._check(part, number, entry)
        return False

    def _check(self, part: IndexPart, number: int, entry: IndexEntry) -> None:
        window, offset = self._window, int(entry.physical_offset)
        if offset < window.start and not self._exact:
            self._chain(part, number, entry, int(entry.key_hash))
            return
        keyed = window.keyed.get(offset)
        if keyed is not None:
            self._exact = True
            self._at = offset
            window.entries += 1
            if entry.key_hash not in keyed.hashes:
                self._other_hash(part, number, entry, keyed.hashes)
                return
            fault = self._time_fault(part, number, entry, keyed.store_timestamp)
            if fault:
                self.entries.append((part.path, offset, self._finding(part, number, offset, fault)))
            self._chain(part, number, entry, int(entry.key_hash))
            return
        if not window.is_damaged(offset) and not self._is_unread(part, number):
            fault = f"entry {number} points to {offset}, no record with keys"
            if offset in window.sizes:
                self.entries.append((part.path, offset, self._finding(part, number, offset, fault)))
            else:
                self.findings.append((part.path, self._finding(part, number, self._at, fault)))
        # The slot of this entry is unknown, so the chains that follow it cannot be checked.
        self._cursor.chains = None

    def _time_fault(self, part: IndexPart, number: int, entry: IndexEntry, store_timestamp: int) -> str:
        """Return why the time of an entry is not its record's, or ""."""
        wanted = entry_seconds(part.header.begin_timestamp, store_timestamp)
        # The first entry counts from the end of the file before.
        if number == 1 or entry.seconds == wanted:
            return ""
        return f"entry {number} has the time {entry.seconds}, its record {wanted}"

    def _other_hash(self, part: IndexPart, number: int, entry: IndexEntry, hashes: list[int]) -> None:
        """Process an entry whose hash is not of a key of its record. Its chain shows which of the two is damaged."""
        chains, offset = self._cursor.chains, int(entry.physical_offset)
        fits: bool = chains is not None and chains.newest(int(entry.key_hash)) == entry.previous
        right = [one for one in hashes if chains is not None and chains.newest(one) == entry.previous]
        if fits and not right:
            sentence = "a record whose topic or keys are not those of its index entries"
            self.misplaced.append((part.path, offset, sentence))
            self._chain(part, number, entry, int(entry.key_hash))
            return
        sentence = f"entry {number} has the hash {entry.key_hash}, no key of its record: one of the two is damaged"
        self.entries.append((part.path, offset, self._finding(part, number, offset, sentence)))
        if right and not fits:
            self._chain(part, number, entry, right[0])
        else:
            # Both fit, or the first entries of the file have not been read. Without the right slot, the chains of later
            # entries cannot be checked.
            self._cursor.chains = None

    def _chain(self, part: IndexPart, number: int, entry: IndexEntry, key_hash: int) -> None:
        chains = self._cursor.chains
        fault = chains.add(number, key_hash, int(entry.previous)) if chains is not None else ""
        if fault:
            self.findings.append((part.path, self._finding(part, number, self._at, fault)))

    def _finding(self, part: IndexPart, number: int, offset: int, sentence: str) -> Damage:
        position = entry_position(part.slots, number)
        return Damage(DamageKind.ENTRY, part.path, position, ENTRY_SIZE, offset, sentence)

    # -- where the window begins --

    def _first(self, reader: PacedReader, part: IndexPart) -> int:
        """Return the number of an entry at or before the first one of the window."""
        low, high = 1, part.count
        while high - low > CHUNK_ENTRIES:
            middle = (low + high) // 2
            count = min(MEDIAN_OF, high - middle)
            position = entry_position(part.slots, middle)
            data = reader.read(f"{self._root}/{part.path}", count * ENTRY_SIZE, position)
            offsets = sorted(int(read_entry(data, i * ENTRY_SIZE).physical_offset) for i in range(count))
            if offsets[count // 2] < self._window.start:
                low = middle
            else:
                high = middle
        reader.take_unreadable()
        return low

    # -- files that no longer change --

    def _slots(self, reader: PacedReader, part: IndexPart) -> Iterator[None]:
        """Compare slots and header of a complete file with its entries."""
        chains, header = self._cursor.chains, part.header
        at = self._at
        if chains is None:
            return
        for first in range(0, part.slots, CHUNK_SLOTS):
            count = min(CHUNK_SLOTS, part.slots - first)
            data = reader.read(f"{self._root}/{part.path}", count * SLOT_SIZE, slot_position(first))
            if not self._unread(reader, part):
                for position, text in chains.slot_faults(data, first, part.count):
                    found = Damage(DamageKind.ENTRY, part.path, position, SLOT_SIZE, at, text)
                    self.findings.append((part.path, found))
            yield
        data = reader.read(f"{self._root}/{part.path}", HEADER_SIZE, 0)
        if self._unread(reader, part):
            return
        fault = chains.count_fault(int(header.slot_count))
        if fault:
            self.findings.append((part.path, Damage(DamageKind.ENTRY, part.path, SLOT_COUNT_AT, SLOT_SIZE, at, fault)))
        elif data != header.encode():
            text = "the header is not the one that the broker read when it started, or wrote"
            self.findings.append((part.path, Damage(DamageKind.ENTRY, part.path, 0, HEADER_SIZE, at, text)))

    # -- bytes that the disk cannot read --

    def _unread(self, reader: PacedReader, part: IndexPart) -> bool:
        """Add the unreadable ranges of the last read. Return whether there are any."""
        lost = reader.take_unreadable()
        for one in lost:
            self._cursor.chains = None
            found = Damage(DamageKind.UNREADABLE, part.path, one.position, one.size, self._at, one.reason)
            self.findings.append((part.path, found))
        return bool(lost)

    def _is_unread(self, part: IndexPart, number: int) -> bool:
        position = entry_position(part.slots, number)
        return any(
            found.kind is DamageKind.UNREADABLE
            and found.path == part.path
            and found.position < position + ENTRY_SIZE
            and position < found.position + found.size
            for _, found in self.findings
        )
