"""Finds records by key in all index files: RocketMQ's IndexService.

A file is named after its creation time (17 digits, local time). When a file is full, the next one starts with the end
times and offsets of the previous one.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from bolide.dispatch.row import Dispatch, in_index
from bolide.layout.errors import LayoutError
from bolide.layout.index_file import IndexHeader, index_file_size
from bolide.layout.shape import StoreShape
from bolide.store.disk.files import FileFailed, Files
from bolide.store.disk.segments import HandleCache
from bolide.store.index.index_file import IndexFile, StoreTime, read_header
from bolide.store.index.key_hash import continue_hash, key_hash

NAME_DIGITS: Final = 17
MAX_QUERY: Final = 64
"""Java's maxMsgsNumBatch: no query returns more offsets."""
MAX_STEPS: Final = 1 << 20
"""Maximum number of entries read by one query, which then returns the records found so far. Java reads all of them."""
_PREFIXES: Final = 4096


@final
class IndexService:
    """All index files of a store. Times are store times in ms; all calls raise `FileFailed`."""

    def __init__(
        self,
        files: Files,
        root: str,
        shape: StoreShape,
        handles: HandleCache,
    ) -> None:
        self.files = files
        self.folder = root + "/index"
        self.handles = handles
        self.enabled = shape.index_enabled
        self.skipped: i64 = 0
        """Number of records that were skipped, as in Java, because they precede the newest indexed record."""
        self.index_msg_timestamp: i64 = 0
        """End time of the last full file that is synced, the third field of the checkpoint."""
        self._slots: i64 = shape.index_slots
        self._entries: i64 = shape.index_entries
        self._tags = shape.tags_in_index
        self._files: list[IndexFile] = []
        self._last: IndexFile | None = None
        self._full: list[IndexFile] = []
        self._prefixes: dict[str, i64] = {}
        self._begun_at: i64 = -1
        """Physical offset of a record of which only the first `_begun` entries were added, or -1."""
        self._begun: i64 = 0
        self._entry: i64 = 0
        """Number of entries of the current record processed so far."""

    # -- start and end --

    def load(self, abnormal: bool, index_msg_timestamp: int) -> list[str]:
        """Open the files and return the paths of deleted ones.

        Deletes files that have no valid header or not the length of the shape. Dispatch creates new ones.

        After a crash, Java deletes every file with an end time after the checkpoint's, and so loses the entries of
        records that recovery does not read again. Bolide rebuilds such a file from its entries, and deletes it only if
        that fails. Records must then be added again, starting at `last_update_physical_offset`.
        """
        self.index_msg_timestamp = index_msg_timestamp
        self._files = []
        removed: list[str] = []
        for name in self.files.list_dir(self.folder):
            if len(name) != NAME_DIGITS or not name.isdigit():
                continue
            file = self._open(self.folder + "/" + name)
            # After a crash, also delete all later files: they would hide the records that must be added again.
            if file is not None and not (abnormal and removed):
                self._files.append(file)
            else:
                self._delete(self.folder + "/" + name)
                removed.append(self.folder + "/" + name)
        if abnormal:
            removed += self._make_good()
            if self._files and self._files[-1].is_full():
                # The next file is missing. It may have contained further entries of a record that starts in this file.
                self._begun_at, self._begun = self._files[-1].newest_record()
            # The process that created the files, or dropped entries of the newest one, may have ended before a sync.
            self.handles.renamed(self.folder)
            if self._files:
                self.handles.wrote(self._files[-1].path)
        self._last = self._files[-1] if self._files else None
        return removed

    def _make_good(self) -> list[str]:
        """After a crash, keep files that were synced or can be rebuilt from their entries. Return the paths of deleted
        files."""
        removed: list[str] = []
        good = 0
        for file in self._files:
            if not self._is_certain(file):
                if not file.salvage(1 << 62):
                    break
                if not file.is_full():
                    good += 1
                    break
                file.finish(True)
                self._full.append(file)
            good += 1
        # Files after a file with lost entries would hide the records that must be added again.
        while len(self._files) > good:
            removed.append(self._remove(len(self._files) - 1))
        while self._files and not self._is_certain(self._files[-1]):
            last = self._files[-1]
            if last in self._full:
                self._full.remove(last)
                last.salvage(1 << 62)
            if last.drop_last():
                break
            # Its only record starts in the previous file, which therefore drops it too.
            removed.append(self._remove(len(self._files) - 1))
        return removed

    def _is_certain(self, file: IndexFile) -> bool:
        return file.is_full() and file.end_timestamp <= self.index_msg_timestamp

    def _open(self, path: str) -> IndexFile | None:
        if self.files.size(path) != index_file_size(self._slots, self._entries):
            return None
        try:
            header = read_header(self.files, path, self.handles)
        except LayoutError:
            return None
        return IndexFile(self.files, path, self._slots, self._entries, self.handles, header)

    def close(self) -> None:
        """Write everything, including slots. The store syncs the files and closes the shared handles."""
        if self._last is not None and self._last.in_memory:
            self._last.finish(True)
        self._sync_full()

    # -- writing --

    def put(self, d: Dispatch, now: i64) -> None:
        """Add an entry for each key of a record: unique key, keys, and tags (not in a 4.9 store).

        Raises `FileFailed`. The caller must then retry with the same record. Existing entries are not added twice.
        """
        if not self.enabled:
            return
        last = self._last
        if last is None or last.is_full():
            last = self._next_file(now)  # as in Java, even if the record turns out to have nothing to index
        else:
            last.settle()
        offset = d.physical_offset
        if offset < last.end_physical_offset:
            self.skipped += 1
            return
        if not in_index(d):
            return
        self._entry = 0
        if self._begun_at != offset:
            self._begun = 0
        try:
            self._put_keys(d, now)
        except FileFailed:
            self._begun_at = offset
            self._begun = self._entry - 1
            raise
        self._begun_at = -1

    def _put_keys(self, d: Dispatch, now: i64) -> None:
        offset = d.physical_offset
        uniq_key = d.uniq_key
        keys = d.keys
        tags = d.tags if self._tags else ""
        prefix = self._prefix(d.topic)
        time = d.store_timestamp
        if uniq_key:
            self._add(continue_hash(prefix, uniq_key), offset, time, now)
        if keys:
            if " " in keys:
                for key in keys.split(" "):
                    if key:
                        self._add(continue_hash(prefix, key), offset, time, now)
            else:
                self._add(continue_hash(prefix, keys), offset, time, now)
        if tags:
            self._add(continue_hash(continue_hash(prefix, "T#"), tags), offset, time, now)

    def _prefix(self, topic: str) -> i64:
        """Return the hash of ``topic#``."""
        known = self._prefixes.get(topic)
        if known is not None:
            return known
        if len(self._prefixes) >= _PREFIXES:
            self._prefixes.clear()
        value = continue_hash(0, topic + "#")
        self._prefixes[topic] = value
        return value

    def _add(self, unsigned: i64, physical_offset: i64, store_timestamp: i64, now: i64) -> None:
        self._entry += 1
        if self._entry <= self._begun:
            return
        hashed = key_hash(unsigned)
        last = self._last
        if last is None or not last.put(hashed, physical_offset, store_timestamp):
            self._next_file(now).put(hashed, physical_offset, store_timestamp)

    def _next_file(self, now: i64) -> IndexFile:
        last = self._last
        header = IndexHeader()
        name = self.files.local_time(int(now))
        if last is not None:
            last.finish(True)
            if last not in self._full:
                self._full.append(last)
            # Sync names in order: a power failure that kept a later file but lost an earlier one would leave a
            # permanent gap, because dispatch continues after the last entry.
            self.files.sync_dir(self.folder)
            header = IndexHeader(
                last.end_timestamp, last.end_timestamp, last.end_physical_offset, last.end_physical_offset, 0, 1
            )
            # Names order the files. Two files in one millisecond, or a clock set back, must not overwrite or reorder
            # them.
            before = last.path[-NAME_DIGITS:]
            if name <= before:
                name = str(int(before) + 1).zfill(NAME_DIGITS)
        else:
            self.files.make_dir(self.folder)
        path = self.folder + "/" + name
        file = IndexFile(self.files, path, self._slots, self._entries, self.handles, header)
        try:
            file.create()
        except FileFailed:
            self._delete(path)  # the next attempt uses another name
            raise
        self.handles.renamed(self.folder)
        self._files.append(file)
        self._last = file
        return file

    def flush(self) -> None:
        """Write buffered entries and the header, and sync files that became full. The checkpoint then covers these."""
        if self._last is not None:
            self._last.flush()
        self._sync_full()

    def _sync_full(self) -> None:
        for file in self._full:
            self.files.datasync(self.handles.get(file.path))
            self.handles.synced(file.path)
            # Only after the sync: a start keeps a file that the checkpoint covers, even if a power failure has lost its
            # slots.
            self.index_msg_timestamp = file.end_timestamp
        self._full = []

    def truncate(self, physical_offset: int) -> None:
        """Drop the entries of records at or after the new end of the log. Otherwise they would hide new records."""
        if physical_offset <= self._begun_at:
            self._begun_at = -1  # its entries are dropped too
        count = len(self._files)
        while self._last is not None and self._last.end_physical_offset >= physical_offset:
            last = self._last
            if last in self._full:
                self._full.remove(last)
            if last.index_count > 1 and last.salvage(physical_offset):
                return
            self._remove(len(self._files) - 1)
        if len(self._files) < count and self._last is not None and self._last.is_full():
            # Its newest record may be added again. Further entries of that record would be in a new file.
            self._begun_at, self._begun = self._last.newest_record()

    def destroy(self) -> None:
        """Delete all files."""
        while self._files:
            self._remove(len(self._files) - 1)

    def delete_before(self, min_physical_offset: int) -> list[str]:
        """Delete the oldest files if all their entries are below the log's first byte, but never the last file."""
        removed: list[str] = []
        while len(self._files) > 1 and self._files[0].end_physical_offset < min_physical_offset:
            removed.append(self._remove(0))
        return removed

    def _remove(self, index: int) -> str:
        file = self._files.pop(index)
        if file in self._full:
            self._full.remove(file)
        self._delete(file.path)
        self._last = self._files[-1] if self._files else None
        return file.path

    def _delete(self, path: str) -> None:
        # A crash before or after leaves one index file more or less; the next start checks it again.
        self.handles.drop(path)
        self.files.remove(path)
        self.handles.renamed(self.folder)

    # -- reading --

    def query(
        self,
        topic: str,
        key: str,
        max_count: int,
        begin: int,
        end: int,
        index_type: str = "",
        stored: StoreTime | None = None,
    ) -> list[int]:
        """Return the physical offsets of records that may have this key and a store time within [begin, end] ms,
        ascending.

        `index_type` "T" searches tags. Hashes collide, so the caller must check topic and key. The index contains whole
        seconds. `stored` returns exact store times; without it, times are rounded down, as in RocketMQ. Buffered
        entries are found too. May block on the disk.
        """
        text = "T#" + key if index_type == "T" else key
        hashed = key_hash(continue_hash(self._prefix(topic), text))
        limit: i64 = min(max_count, MAX_QUERY)
        steps: i64 = MAX_STEPS
        found: list[int] = []
        for file in reversed(self._files):
            if limit <= len(found) or steps <= 0:
                break
            if file.overlaps(begin, end):
                steps = file.find(hashed, limit, begin, end, found, steps, stored)
            if file.begin_timestamp < begin:
                break
        found.sort()
        return found

    @property
    def last_update_timestamp(self) -> int:
        """Store time of the newest entry, for the response to a query, or 0 if there is none."""
        return self._last.end_timestamp if self._last is not None else 0

    @property
    def last_update_physical_offset(self) -> int:
        """Physical offset of the newest entry, for the response to a query, or 0 if there is none."""
        return self._last.end_physical_offset if self._last is not None else 0

    def index_files(self) -> list[IndexFile]:
        """Return the files, oldest first."""
        return list(self._files)
