"""Reads one window of the log: checks each record, and collects the unit and the index entries that it must have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from zlib import crc32

from bolide.dispatch.multi import is_place
from bolide.dispatch.row import Dispatch, in_index, in_light_queue, in_queue, index_keys
from bolide.layout.hashes import index_hash
from bolide.layout.record import MIN_RECORD_SIZE
from bolide.layout.shape import StoreShape
from bolide.store.offline.walk import CRC_FAULT, End, Problem, Records, SegmentFile, walk_bytes
from bolide.store.scrub.paced_reader import Gone, PacedReader
from bolide.store.scrub.window import Keyed, LogWindow

CHUNK: Final = 16 * 1024
"""Bytes checked between two reads. A read releases the interpreter for the event loop."""
WINDOW_BYTES: Final = 16 * 1024 * 1024
WINDOW_RECORDS: Final = 20_000
LONGEST: Final = 32 * 1024 * 1024
"""More than the longest record that the settings allow."""


class LogScan:
    """The scan of one window. `limit`: the physical offset, in the window's file, at which the scan ends."""

    def __init__(
        self, window: LogWindow, path: str, file_start: int, limit: int, shape: StoreShape, deleted: Mapping[str, int]
    ) -> None:
        """`deleted`: the physical offset of the deletion of each deleted topic."""
        self._window = window
        self._file = SegmentFile(path, file_start, limit - file_start)
        self._whole = limit - file_start == shape.commit_log_segment_size
        self._shape = shape
        self._deleted = deleted

    def steps(self, reader: PacedReader) -> Iterator[None]:
        """Check the window. Yields after each read. Raises `FileFailed`."""
        try:
            yield from self._walk(reader)
        except Gone:
            self._window.gone = True

    def _walk(self, reader: PacedReader) -> Iterator[None]:
        window, file = self._window, self._file
        walker = walk_bytes(
            lambda size, at: reader.read(file.path, size, at),
            file,
            self._shape,
            True,
            at=window.start - file.start,
            chunk=CHUNK,
            longest=LONGEST,
        )
        at = window.start
        for step in walker:
            if isinstance(step, Records):
                at = self._records(step.physical_offset, step.dispatches)
                if at - window.start >= WINDOW_BYTES or len(window.sizes) >= WINDOW_RECORDS:
                    break
            elif isinstance(step, Problem):
                at = self._problem(step)
            elif isinstance(step, End):
                at = self._end(step)
            yield
        window.stop = at
        window.lost(reader.take_unreadable())
        if window.sizes:
            last = max(window.sizes)
            window.anchor = last, crc32(reader.read(file.path, MIN_RECORD_SIZE, last - file.start))

    def _problem(self, problem: Problem) -> int:
        at, size = problem.physical_offset, problem.size
        if problem.sentence == CRC_FAULT:
            self._window.bad_body(at, size, problem.sentence)
            return at
        if size > 0:  # 0: an unreadable page was readable the second time
            self._window.damage(at, size, problem.sentence)
        return at + size

    def _end(self, end: End) -> int:
        """Return the end of the window at the end of the file's records."""
        stop = self._file.start + self._file.size
        if end.blank:
            return self._file.start + self._shape.commit_log_segment_size
        if end.physical_offset < stop and not self._window.is_damaged(stop - 1):
            # Zeros: the file ends with a blank record, and the log before `limit` contains records only.
            self._window.damage(end.physical_offset, stop - end.physical_offset, "zeros that are not a record")
        return stop

    def _records(self, at: int, dispatches: list[Dispatch]) -> int:
        window = self._window
        for d in dispatches:
            if d.physical_offset != at:
                window.damage(at, int(d.size), f"the record calls itself {d.physical_offset}, but it is {at}")
            else:
                window.sizes[at] = int(d.size)
                self._expect(d, at)
            at += int(d.size)
        return at

    def _expect(self, d: Dispatch, at: int) -> None:
        window = self._window
        if in_index(d):
            keys = index_keys(d.topic, d.uniq_key, d.keys, d.tags, True)
            if keys:
                window.keyed[at] = Keyed([index_hash(key) for key in keys], int(d.store_timestamp))
        # The comparison with the unit needs only the other fields.
        d.properties, d.keys, d.uniq_key = b"", "", ""
        if not in_queue(d):
            return
        if not is_place(d.topic, d.queue_id):
            window.placeless.add(at)
        elif at >= self._deleted.get(d.topic, 0):
            window.expected.setdefault((d.topic, int(d.queue_id)), []).append(d)
        for light in d.multi or ():
            if at >= self._deleted.get(light.topic, 0):
                other = in_light_queue(d, light)
                other.properties, other.keys, other.uniq_key = b"", "", ""
                window.expected.setdefault((other.topic, int(other.queue_id)), []).append(other)
