"""A range of the log that is checked together with its units and index entries, and its findings."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from bolide.dispatch.row import Dispatch
from bolide.store.scrub.finding import Damage, DamageKind, place_in_log
from bolide.store.scrub.paced_reader import Unreadable


@dataclass(frozen=True)
class Keyed:
    """The index entries that a record must have: the hashes of its keys, and its store time in ms."""

    hashes: list[int]
    store_timestamp: int


class LogWindow:
    """One range of the log, within one file. The scans fill it, in the pool. Call `verdict` after the last scan."""

    def __init__(self, start: int, segment_size: int, cuts: int) -> None:
        self.start = start
        self.stop = start
        """End of the range, once the log has been read."""
        self.cuts = cuts
        """Number of truncations of the log before the window. A window does not survive a truncation."""
        self.units = 0
        """Number of units compared with their records."""
        self.entries = 0
        """Number of index entries compared with their records."""
        self.gone = False
        """Whether the file does not exist or is too short."""
        self.sizes: dict[int, int] = {}
        """Size of each record whose header is valid, by physical offset."""
        self.expected: dict[tuple[str, int], list[Dispatch]] = {}
        """Records by their queue."""
        self.keyed: dict[int, Keyed] = {}
        """Records with keys, by physical offset."""
        self.findings: list[Damage] = []
        self.bad_units: dict[int, list[Damage]] = {}
        """Units that differ from their record, by its physical offset."""
        self.bad_entries: dict[int, list[Damage]] = {}
        """Index entries that differ from their record, by its physical offset."""
        self.misplaced: dict[int, str] = {}
        """Records that name a place of another record, or no place of their queue, by physical offset."""
        self.placeless: set[int] = set()
        """Records without a queue. Their topic was deleted, or their header is damaged."""
        self.anchor = (-1, 0)
        """Physical offset and checksum of the header of the last record."""
        self._segment_size = segment_size
        self._damaged: list[tuple[int, int]] = []
        self._bad_bodies: set[int] = set()

    # -- the log --

    def damage(self, offset: int, size: int, sentence: str) -> None:
        """Add bytes of the log that are not a record. Ranges that follow each other are one finding."""
        if self._damaged and self._damaged[-1][1] == offset:
            first = self._damaged.pop()[0]
            self.findings = [one for one in self.findings if one.log_offset != first]
            size += offset - first
            offset = first
        self._damaged.append((offset, offset + size))
        self._record(offset, size, sentence)

    def bad_body(self, offset: int, size: int, sentence: str) -> None:
        """Add a record whose header is valid and whose body is damaged."""
        self._bad_bodies.add(offset)
        self._record(offset, size, sentence)

    def lost(self, unreadable: list[Unreadable]) -> None:
        """Name the bytes of the log that the disk could not read, which were checked as zeros."""
        file_start = self.start - self.start % self._segment_size
        for one in unreadable:
            begin, end = file_start + one.position, file_start + one.position + one.size
            inside = [f for f in self.findings if f.log_offset < end and begin < f.log_offset + f.size]
            for found in inside:
                self.findings.remove(found)
                self._add(DamageKind.UNREADABLE, found.log_offset, found.size, one.reason)
            if not inside:
                path, position = place_in_log(begin, self._segment_size)
                self.findings.append(Damage(DamageKind.UNREADABLE, path, position, one.size, begin, one.reason))

    def is_damaged(self, offset: int) -> bool:
        """Return whether a physical offset is in bytes that are not a record."""
        index = bisect_right(self._damaged, (offset, 1 << 62)) - 1
        return index >= 0 and offset < self._damaged[index][1]

    def _record(self, offset: int, size: int, sentence: str) -> None:
        self._add(DamageKind.RECORD, offset, size, sentence)

    def _add(self, kind: DamageKind, offset: int, size: int, sentence: str) -> None:
        path, position = place_in_log(offset, self._segment_size)
        self.findings.append(Damage(kind, path, position, size, offset, sentence))

    # -- queues and index --

    def verdict(self) -> list[Damage]:
        """Return the findings of this range: one per damage.

        Record, unit and index entries contain the same facts. If one unit or entry differs from the record, it is
        damaged; if several differ, the record is. Most of a record's header and its properties have no CRC.
        """
        for offset in sorted({*self.bad_units, *self.bad_entries, *self.misplaced, *self.placeless}):
            units, entries = self.bad_units.get(offset, []), self.bad_entries.get(offset, [])
            misplaced = self.misplaced.get(offset, "")
            others = len(entries) + len(units) + (offset in self.placeless and bool(entries))
            if misplaced or others > 1:
                if offset not in self._bad_bodies:
                    sentence = misplaced or "a record that differs from its unit and its index entries"
                    self._record(offset, self.sizes.get(offset, 0), sentence)
                continue
            self.findings += [*units, *entries]
        return sorted(self.findings, key=lambda one: (one.log_offset, one.path, one.position))
