"""One IndexFile: hash slots and appended entries. The bytes equal RocketMQ's IndexFile.

Java keeps the slots in the mapped file, and each entry writes a random page of it. Here, they are an int32 vector in
memory until the file is full or the store closes. Entries are written sequentially. So a crash loses slots, and
`salvage` rebuilds them from the entries, each of which contains its hash and the number of its predecessor.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from typing import Final, TypeAlias, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from librt.vecs import extend, vec
from mypy_extensions import i32, i64

from bolide.layout.index_file import (
    ENTRY_SIZE,
    HEADER_SIZE,
    SLOT_SIZE,
    IndexHeader,
    decode_index_header,
    entry_seconds,
    index_file_size,
)
from bolide.store.disk.files import Files
from bolide.store.disk.segments import HandleCache

ENTRIES_LIMIT: Final = 64 * 1024
"""Maximum number of bytes of entries buffered in memory."""
READ_STEPS: Final = 256
"""Cost of reading one record, in entries that a query may read."""
StoreTime: TypeAlias = Callable[[int], int]
"""Returns the store time (ms) of the record at a physical offset, or -1 if there is no record."""
_CHUNK_SLOTS: Final = 256 * 1024
_WINDOW: Final = 3276 * ENTRY_SIZE
_SWAP: Final = sys.byteorder == "little"


@final
class IndexFile:
    """One file of the index. Times are store times in ms; all calls raise `FileFailed`."""

    def __init__(
        self, files: Files, path: str, slots: i64, entries: i64, handles: HandleCache, header: IndexHeader
    ) -> None:
        self.files = files
        self.path = path
        self.slots: i64 = slots
        self.entries: i64 = entries
        self.handles = handles
        self.begin_timestamp: i64 = header.begin_timestamp
        self.end_timestamp: i64 = header.end_timestamp
        self.begin_physical_offset: i64 = header.begin_physical_offset
        self.end_physical_offset: i64 = header.end_physical_offset
        self.slot_count: i64 = header.slot_count
        self.index_count: i64 = min(header.index_count, entries)
        """Number of the next entry; entry 0 is never used."""
        self.dirty = False
        self._begun = True
        """Whether the header contains the times of the first entry; `salvage` needs them for all other entries."""
        self._entries_at: i64 = entry_start(slots)
        self._waiting = BytesWriter()
        self._waiting_from: i64 = self.index_count
        self._table: vec[i32] = vec[i32]()
        self.in_memory = False
        """Whether the slots are in memory, because the file has been written since it was opened."""
        self._size: i64 = index_file_size(slots, entries)

    # -- writing --

    def is_full(self) -> bool:
        """Return whether the file is full, so that the next entry needs a new file."""
        return self.index_count >= self.entries

    def put(self, hashed: i64, physical_offset: i64, store_timestamp: i64) -> bool:
        """Add an entry for a key hash (`key_hash`) in memory. Return False if the file is full.

        Raises `FileFailed` without changes if the slots cannot be read. `settle` writes buffered entries.
        """
        count = self.index_count
        if count >= self.entries:
            return False
        if not self.in_memory:
            self._read_slots()
        slot: i64 = hashed % self.slots
        previous: i64 = i64(self._table[slot])
        if previous <= 0 or previous > count:
            previous = 0
            self.slot_count += 1
        w = self._waiting
        write_i32_be(w, i32(hashed))
        write_i64_be(w, physical_offset)
        write_i32_be(w, i32(entry_seconds(self.begin_timestamp, store_timestamp)))
        write_i32_be(w, i32(previous))
        self._table[slot] = i32(count)
        self.index_count = count + 1
        self.end_physical_offset = physical_offset
        self.end_timestamp = store_timestamp
        self.dirty = True
        if count <= 1:
            self.begin_physical_offset = physical_offset
            self.begin_timestamp = store_timestamp
            self._begun = False
        return True

    def settle(self) -> None:
        """Write the first header if it is missing, and the buffered entries if there are many."""
        if len(self._waiting) >= ENTRIES_LIMIT:
            self.write_entries()
        elif not self._begun:
            self._begin()

    def _begin(self) -> None:
        self._write(self._header(), 0)
        self._begun = True

    def create(self) -> None:
        """Create the file, sparse and with its full length, and write the current header."""
        self.handles.get(self.path, int(self._size))
        self._write(self._header(), 0)
        self._empty_slots()

    def _empty_slots(self) -> None:
        zeros = vec[i32](array("i", bytes(4 * min(self.slots, _CHUNK_SLOTS))))
        self._table = vec[i32](capacity=self.slots)
        left = self.slots
        while left >= len(zeros):
            self._table = extend(self._table, zeros)
            left -= len(zeros)
        if left > 0:
            self._table = extend(self._table, zeros[:left])
        self.in_memory = True

    def write_entries(self) -> None:
        """Write the buffered entries with one sequential write, so that they can be read from the file."""
        data = self._waiting.getvalue()
        if data:
            if not self._begun:
                self._begin()
            # A crash here leaves entries beyond the header's count. They are never read, and later entries overwrite
            # them.
            self._write(data, self._entries_at + self._waiting_from * ENTRY_SIZE)
            self._waiting = BytesWriter()
            self._waiting_from = self.index_count

    def flush(self) -> None:
        """Write the buffered entries and the header. The slots remain in memory until `finish`."""
        if self.dirty:
            self.write_entries()
            self._write(self._header(), 0)
            self.dirty = False

    def finish(self, release: bool) -> None:
        """Write entries, slots and header. With `release`, free the slots in memory because the file is full or
        closed."""
        self.write_entries()
        self._write_slots()
        # Write the slots before the header. After a crash in between, slots may refer to entries beyond the header's
        # count. Such slots are treated as empty.
        self._write(self._header(), 0)
        self.dirty = False
        if release:
            self._table = vec[i32]()
            self.in_memory = False

    def header(self) -> IndexHeader:
        """Return the current header."""
        return IndexHeader(
            self.begin_timestamp,
            self.end_timestamp,
            self.begin_physical_offset,
            self.end_physical_offset,
            self.slot_count,
            self.index_count,
        )

    def count_in_file(self) -> i64:
        """Return the number after the last entry that is in the file."""
        return self._waiting_from

    def _header(self) -> bytes:
        return self.header().encode()

    def _write(self, data: bytes, at: i64) -> None:
        self.files.write_at(self.handles.get(self.path, int(self._size)), [data], int(at))
        self.handles.wrote(self.path)

    def _read_slots(self) -> None:
        """Read the slots of an existing file into memory to continue writing it."""
        table = vec[i32](capacity=self.slots)
        at: i64 = 0
        while at < self.slots:
            count: i64 = min(_CHUNK_SLOTS, self.slots - at)
            data = self.files.read_at(self.handles.get(self.path), int(count * SLOT_SIZE), int(slot_at(at)))
            part = array("i", data.ljust(int(count * SLOT_SIZE), b"\x00"))
            if _SWAP:
                part.byteswap()
            table = extend(table, vec[i32](part))
            at += count
        self._table = table
        self.in_memory = True

    def _write_slots(self) -> None:
        if not self.in_memory:
            return
        view = memoryview(self._table)
        at: i64 = 0
        while at < self.slots:
            part = array("i", view[at : at + _CHUNK_SLOTS])
            if _SWAP:
                part.byteswap()
            data = part.tobytes()
            if data != bytes(len(data)):  # a slot never becomes empty again: zeros here are zeros in the file
                self._write(data, slot_at(at))
            at += _CHUNK_SLOTS
        view.release()

    def salvage(self, before: i64) -> bool:
        """Rebuild slots and header from the entries of records below `before`. Return False if there are none.

        Stops at the first invalid entry: its offset is lower than the previous one, or its predecessor is not the
        newest entry of its slot. Later entries are zeroed; otherwise a later salvage would accept them.
        """
        self.write_entries()
        known = self.index_count
        count = self._count_entries(before)
        if self.begin_timestamp <= 0 or count <= 1:
            return False
        self.index_count = self._waiting_from = count
        if count != known:
            _, offset, seconds, _ = self._entry(count - 1)
            # All entries of the records before a dropped record exist, so these records must not be added again.
            self.end_physical_offset = offset + 1 if self._entry(count)[1] >= before else offset
            self.end_timestamp = self.begin_timestamp + seconds * 1000 + 999
        self._wipe_rest()
        return True

    def drop_last(self) -> bool:
        """Drop the entries of the newest record, because a crash may have lost some of them. Return False if the file
        then has no entries.

        Call this right after `salvage`. Recovery adds only this record again, not earlier ones.
        """
        count = self.index_count
        last = self._entry(count - 1)[1]
        while count > 1:
            hashed, offset, seconds, previous = self._entry(count - 1)
            if offset != last:
                # One more than that record's offset, because a fully indexed record must not be added again.
                self.end_physical_offset = offset + 1
                self.end_timestamp = self.begin_timestamp + seconds * 1000 + 999
                break
            self._table[i64(hashed) % self.slots] = i32(previous)
            if previous == 0:
                self.slot_count -= 1
            count -= 1
        self.index_count = self._waiting_from = count
        self._wipe_rest()
        return count > 1

    def newest_record(self) -> tuple[i64, i64]:
        """Return the physical offset of the newest record in the file (-1 if none) and the number of its entries."""
        count = self.index_count
        last: i64 = self._entry(count - 1)[1] if count > 1 else -1
        while count > 1 and self._entry(count - 1)[1] == last:
            count -= 1
        return last, self.index_count - count

    def _wipe_rest(self) -> None:
        self.dirty = True
        if self.is_full():
            return
        handle = self.handles.get(self.path)
        # A crash between the two calls leaves a file of the wrong length, which the next start deletes.
        self.files.truncate(handle, int(self._entries_at + self.index_count * ENTRY_SIZE))
        self.files.truncate(handle, int(self._size))
        self.handles.wrote(self.path)

    def _count_entries(self, before: i64) -> i64:
        """Return the number after the last valid entry. Fills the slots and counts the used ones."""
        self._empty_slots()
        self.slot_count = 0
        number: i64 = 1
        last: i64 = -1
        while number < self.entries:
            data = self._read_entries(number, min(self.entries, number + _WINDOW // ENTRY_SIZE))
            if len(data) < ENTRY_SIZE:
                break
            at: i64 = 0
            while at + ENTRY_SIZE <= len(data):
                hashed: i64 = i64(read_i32_be(data, at))
                offset: i64 = read_i64_be(data, at + 4)
                if hashed < 0 or offset < last or offset >= before or read_i32_be(data, at + 12) < 0:
                    return number
                slot: i64 = hashed % self.slots
                previous = self._table[slot]
                if read_i32_be(data, at + 16) != previous:
                    return number
                if previous == 0:
                    self.slot_count += 1
                self._table[slot] = i32(number)
                last = offset
                number += 1
                at += ENTRY_SIZE
        return number

    def _entry(self, number: i64) -> tuple[int, int, int, int]:
        """Return hash, physical offset, seconds and predecessor of an entry in the file."""
        data = self._read_entries(number, number + 1)
        if len(data) < ENTRY_SIZE:
            return 0, -1, 0, 0
        return read_i32_be(data, 0), read_i64_be(data, 4), read_i32_be(data, 12), read_i32_be(data, 16)

    # -- reading --

    def overlaps(self, begin: i64, end: i64) -> bool:
        """Return whether the file may contain entries with times within [begin, end], like Java's isTimeMatched."""
        first, last = self.begin_timestamp, self.end_timestamp
        return (begin < first and end > last) or first <= begin <= last or first <= end <= last

    def find(
        self, hashed: i64, max_count: i64, begin: i64, end: i64, found: list[int], steps: i64, stored: StoreTime | None
    ) -> i64:
        """Append to `found` the physical offsets of entries with this hash and a time within [begin, end] ms, newest
        first.

        Entries contain whole seconds. If only a part of an entry's second is in the range, `stored` is called for the
        store time of its record in ms, which counts as `READ_STEPS` steps. With None, the second is compared, as in
        RocketMQ. Stops at `max_count` offsets in `found`, at an entry older than `begin`, or after `steps` entries, and
        returns the remaining steps. Also stops if the chain is damaged, so that entry numbers do not decrease.
        """
        number = self._head(hashed % self.slots)
        count = self.index_count
        window = b""
        first: i64 = 0
        if number >= self._waiting_from:
            self.write_entries()
        while 0 < number < count and steps > 0 and max_count > len(found):
            at = (number - first) * ENTRY_SIZE
            if number < first or at + ENTRY_SIZE > len(window):
                # Chains run backwards through the file: read a window that ends with the wanted entry.
                first = max(0, number + 1 - (_WINDOW // ENTRY_SIZE if window else 1))
                window = self._read_entries(first, number + 1)
                at = (number - first) * ENTRY_SIZE
                if at + ENTRY_SIZE > len(window):
                    break
            steps -= 1
            seconds: i64 = i64(read_i32_be(window, at + 12))
            if seconds < 0:
                break
            time: i64 = self.begin_timestamp + seconds * 1000
            last: i64 = time if stored is None else time + 999
            if i64(read_i32_be(window, at)) == hashed and begin <= last and time <= end:
                offset = int(read_i64_be(window, at + 4))
                if stored is not None and (time < begin or last > end):
                    steps -= READ_STEPS
                    time = i64(stored(offset))
                if begin <= time <= end:
                    found.append(offset)
            previous: i64 = i64(read_i32_be(window, at + 16))
            if previous >= number or last < begin:
                break
            number = previous
        return steps

    def _head(self, slot: i64) -> i64:
        """Return the number of the newest entry in a slot, or 0 if the slot is empty."""
        if self.in_memory:
            return i64(self._table[slot])
        data = self.handles.read(self.path, SLOT_SIZE, slot_at(slot))
        return i64(read_i32_be(data, 0)) if len(data) == SLOT_SIZE else 0

    def _read_entries(self, first: i64, stop: i64) -> bytes:
        return self.handles.read(self.path, (stop - first) * ENTRY_SIZE, self._entries_at + first * ENTRY_SIZE)


def slot_at(slot: i64) -> i64:
    """Return the position of a slot in the file, in bytes."""
    return HEADER_SIZE + slot * SLOT_SIZE


def entry_start(slots: i64) -> i64:
    """Return the position of entry 0 in the file, in bytes."""
    return HEADER_SIZE + slots * SLOT_SIZE


def read_header(files: Files, path: str, handles: HandleCache) -> IndexHeader:
    """Return the header of an index file on disk. Raises `LayoutError` if the file is shorter than a header."""
    return decode_index_header(files.read_at(handles.get(path), HEADER_SIZE, 0))
