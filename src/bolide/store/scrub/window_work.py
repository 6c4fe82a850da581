"""The scans of one window: its part of the log, then its queues, then the index.

Scans run in the pool. Between them this module is on the event loop, where it reads the state of queues and index, and
drops results about files that were deleted during a scan.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bolide.layout.queue_unit import UNIT_SIZE
from bolide.store.index.index_file import IndexFile
from bolide.store.message_store import MessageStore
from bolide.store.queues.consume_queue import ConsumeQueue
from bolide.store.scrub.finding import Damage, DamageKind, place_in_log
from bolide.store.scrub.index_scan import IndexCursor, IndexPart, IndexScan
from bolide.store.scrub.log_scan import LogScan
from bolide.store.scrub.paced_reader import PacedReader
from bolide.store.scrub.unit_scan import QueuePart, UnitScan
from bolide.store.scrub.window import LogWindow

QUEUES_AT_ONCE: Final = 64
"""Number of queues whose state is read in one turn of the loop."""


class Reached:
    """Ends of the last window in queues and index. In memory only."""

    def __init__(self, since_begin: bool = False) -> None:
        self.since_begin = since_begin
        """Whether this process has checked the log from its first record, without a gap."""
        self.queues: dict[tuple[str, int], int] = {}
        """Unit after the last checked unit, by queue."""
        self.index = IndexCursor()


class WindowWork:
    """Checks the log from `start` to `limit`, or to the end of the file or of the window before that."""

    def __init__(self, store: MessageStore, reader: PacedReader, reached: Reached, start: int, limit: int) -> None:
        self.window = LogWindow(start, store.shape.commit_log_segment_size, store.maintenance.sealed.cuts)
        self._store = store
        self._reader = reader
        self._reached = reached
        self._root = store.root
        segment = store.shape.commit_log_segment_size
        self._file_start = start - start % segment
        self._limit = min(limit, self._file_start + segment)
        self._log: LogScan | None = None
        self._left: list[tuple[str, int]] = []
        self._units: UnitScan | None = None
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self._index: IndexScan | None = None

    @property
    def valid(self) -> bool:
        """Whether the results apply: the log was not truncated, and its start is still at or before the window."""
        store = self._store
        return self.window.cuts == store.maintenance.sealed.cuts and store.log.segments.min_offset <= self.window.start

    def next_scan(self) -> Iterator[None] | None:
        """Return the next scan for the pool, or None after the last one."""
        if self._log is None:
            return self._read_log()
        if self._index is not None:
            self._take_entries(self._index)
            return None
        if self._units is None:
            if self.window.gone:
                self._log_is_missing()
                return None
            self._left = list(self.window.expected)
        else:
            self._take_units(self._units)
        return self._read_units() if self._left else self._read_index()

    # -- the log --

    def _read_log(self) -> Iterator[None]:
        store = self._store
        path = store.log.segments.path_for(self._file_start)
        deleted = dict(store.queues.deleted.marks)
        self._log = LogScan(self.window, path, self._file_start, self._limit, store.shape, deleted)
        return self._log.steps(self._reader)

    def _log_is_missing(self) -> None:
        """Report a file of the log that is deleted or shorter, though retention has not deleted it."""
        window = self.window
        path, position = place_in_log(window.start, self._store.shape.commit_log_segment_size)
        size = self._limit - window.start
        text = "the file does not exist, or ends before these bytes"
        window.findings = [Damage(DamageKind.MISSING, path, position, size, window.start, text)]
        window.stop = self._limit

    # -- queues --

    def _read_units(self) -> Iterator[None]:
        taken, self._left = self._left[:QUEUES_AT_ONCE], self._left[QUEUES_AT_ONCE:]
        parts: list[QueuePart] = []
        for key in taken:
            queue = self._store.queues.get(*key)
            records = self.window.expected.pop(key)
            if queue is None:
                self.window.placeless.update(int(d.physical_offset) for d in records)
                continue
            self._queues[key] = queue
            first = max(int(queue.min_offset), int(queue.segments.min_offset) // UNIT_SIZE)
            reached = self._reached.queues.get(key, first if self._reached.since_begin else -1)
            end = int(queue.end_in_files())
            parts.append(QueuePart(*key, first, end, queue.ext is not None, records, reached))
        self._units = UnitScan(self._root, self._store.shape, self.window, parts, self._readable())
        return self._units.steps(self._reader)

    def _take_units(self, scan: UnitScan) -> None:
        """Add the results of a scan, except for queues that were deleted during the scan."""
        window, queues = self.window, self._store.queues
        kept = {
            (part.topic, part.queue_id)
            for part in scan.parts
            if queues.get(part.topic, part.queue_id) is self._queues[part.topic, part.queue_id]
        }
        for part in scan.parts:
            if (part.topic, part.queue_id) in kept:
                self._reached.queues[part.topic, part.queue_id] = part.next
        for part, offset, found in scan.findings:
            if (part.topic, part.queue_id) in kept:
                if found.kind is DamageKind.UNIT:
                    window.bad_units.setdefault(offset, []).append(found)
                else:
                    window.findings.append(found)
        for part, offset, sentence in scan.misplaced:
            if (part.topic, part.queue_id) in kept:
                window.misplaced.setdefault(offset, sentence)

    # -- the index --

    def _read_index(self) -> Iterator[None]:
        window = self.window
        parts = [
            self._index_part(file)
            for file in self._store.index.index_files()
            if file.end_physical_offset >= window.start and file.begin_physical_offset < window.stop
        ]
        self._index = IndexScan(self._root, window, parts, self._reached.index, self._readable())
        return self._index.steps(self._reader)

    def _index_part(self, file: IndexFile) -> IndexPart:
        complete = file.is_full() and not file.in_memory
        count = int(file.count_in_file())
        path = file.path.removeprefix(f"{self._root}/")
        return IndexPart(path, int(file.slots), count, complete, file.header())

    def _take_entries(self, scan: IndexScan) -> None:
        """Add the results of a scan, except for index files that were deleted during the scan."""
        window = self.window
        paths = {file.path.removeprefix(f"{self._root}/") for file in self._store.index.index_files()}
        window.findings += [found for path, found in scan.findings if path in paths]
        for path, offset, found in scan.entries:
            if path in paths:
                window.bad_entries.setdefault(offset, []).append(found)
        for path, offset, sentence in scan.misplaced:
            if path in paths:
                window.misplaced.setdefault(offset, sentence)

    def _readable(self) -> tuple[int, int]:
        """Return the first and last physical offset of records."""
        return int(self._store.log.segments.min_offset), int(self._store.dispatched_offset)
