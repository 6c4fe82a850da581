"""ConsumeQueueExt: extension units of one queue (tags code, store time, filter bitmap), as in RocketMQ's
ConsumeQueueExt.

A unit never crosses a file: if it does not fit with 4 bytes to spare, ``int16 -1`` ends the file and the unit starts
the next one. The queue unit refers to it by an address (`layout.ext_unit`). Unwritten units are in a small tail in
memory, and can be read there.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from bolide.layout.errors import LayoutError
from bolide.layout.ext_unit import (
    END_OF_FILE,
    MIN_UNIT_SIZE,
    ExtUnit,
    ext_address,
    ext_offset,
    fits,
    has_address,
    is_ext_address,
    read_ext_size,
    read_ext_unit,
    write_ext_unit,
)
from bolide.layout.limits import MAX_EXT_UNIT_SIZE
from bolide.store.disk.files import Files
from bolide.store.disk.segments import Extent, HandleCache, SegmentList

TAIL_LIMIT: Final = 16 * 1024
"""Maximum bytes of one queue's extension units in memory."""
_CHUNK: Final = 64 * 1024


@final
class ConsumeQueueExt:
    """The extension files of one queue. All calls raise `FileFailed`. Addresses are described in `layout.ext_unit`."""

    def __init__(self, files: Files, folder: str, segment_size: i64, handles: HandleCache) -> None:
        self.segments = SegmentList(files, folder, int(segment_size), handles)
        self.segment_size: i64 = segment_size
        self.end: i64 = 0
        self._tail: BytesWriter | None = None
        self._tail_at: i64 = 0
        self._seen: bytes = b""

    def load(self) -> None:
        """List the files in the folder. Delete the first file with a wrong length or position and all later files:
        dispatch recreates them."""
        self.segments.load(True)
        self.end = self._tail_at = self.segments.min_offset

    def put(self, tags_code: i64, store_timestamp: i64, bitmap: bytes) -> i64:
        """Append a unit. Return its address, or `tags_code` if a unit of that size has no address."""
        size: i64 = MIN_UNIT_SIZE + len(bitmap)
        if not has_address(self.end, size):
            return tags_code
        if not fits(self.end, size, self.segment_size):
            self._end_file()
        w = self._tail
        if w is not None and len(w) >= TAIL_LIMIT:
            self.flush()
            w = None
        if w is None:
            w = self._tail = BytesWriter()
        address: i64 = ext_address(self.end)
        write_ext_unit(w, tags_code, store_timestamp, bitmap)
        self.end += size
        self._seen = b""
        return address

    def _end_file(self) -> None:
        self.flush()
        self.segments.write(self.end, [END_OF_FILE])
        # After a crash here, the mark ends the file, and the next file is missing. Recovery continues after the mark.
        self.end += self.segment_size - self.end % self.segment_size
        self._tail_at = self.end

    def flush(self) -> None:
        """Write the tail to its file. The store syncs it later through its handles."""
        w = self._tail
        if w is None:
            return
        data = w.getvalue()
        if data:
            self.segments.write(self._tail_at, [data])
        self._tail = None
        self._tail_at = self.end
        self._seen = b""

    def unit(self, address: i64) -> ExtUnit | None:
        """Return the unit at an address, or None if the address is invalid. May block on the disk. Raises `LayoutError`
        if the unit is damaged."""
        offset: i64 = ext_offset(address)
        if not is_ext_address(address) or offset < self.segments.min_offset or offset + MIN_UNIT_SIZE > self.end:
            return None
        if offset >= self._tail_at:
            if not self._seen and self._tail is not None:
                self._seen = self._tail.getvalue()
            return read_ext_unit(self._seen, offset - self._tail_at)
        head = self.segments.read(offset, 2)
        size: i64 = read_ext_size(head, 0)
        if size < MIN_UNIT_SIZE:
            return None
        return read_ext_unit(self.segments.read(offset, size), 0)

    def is_warm(self, address: i64) -> bool:
        """Return whether the unit at this address can be read without waiting for the disk."""
        offset: i64 = ext_offset(address)
        return offset >= self._tail_at or self.segments.read_warm(offset, self._span(offset)) is not None

    def extent(self, address: i64) -> Extent:
        """Return the range of the unit at this address, for loading it into memory elsewhere."""
        offset: i64 = ext_offset(address)
        return self.segments.extent(offset, self._span(offset))

    def _span(self, offset: i64) -> i64:
        """Return how many bytes to read for a unit of unknown size: a page within the file."""
        return min(4096, self.segment_size - offset % self.segment_size)

    # -- recovery --

    def recover(self) -> None:
        """Walk all files unit by unit, and set the end after the last unit of the newest file.

        As in Java, an invalid unit ends its file, and the walk continues with the next file. The queue's units later
        show which of the extension units are valid (`truncate_behind`).
        """
        end: i64 = self.segments.min_offset
        for start in self.segments.segment_starts():
            end = start + self._walk(start)
        self._reset(end)

    def _walk(self, start: i64) -> i64:
        """Return the number of bytes of complete units at the start of the file that starts at `start`."""
        at: i64 = 0
        have = b""
        base: i64 = 0
        while True:
            if at - base + MAX_EXT_UNIT_SIZE > len(have) and base + len(have) < self.segment_size:
                base = at
                have = self.segments.read(start + at, min(_CHUNK, self.segment_size - at))
                if len(have) == 0:
                    return at
            size: i64 = read_ext_size(have, at - base)
            if size < MIN_UNIT_SIZE or at + size > self.segment_size:
                return at
            at += size

    def truncate_behind(self, address: i64) -> None:
        """Keep the unit at this address as the last one. Does nothing for a tags code that is not an address, or for a
        damaged address: extra units are never read."""
        if not is_ext_address(address):
            return
        try:
            unit = self.unit(address)
        except LayoutError:
            return
        if unit is None:
            return
        offset: i64 = ext_offset(address)
        self._cut(offset + unit.size)

    def clear(self) -> None:
        """Drop all units, because no unit of the queue refers to them."""
        self._cut(self.segments.min_offset)

    def _cut(self, end: i64) -> None:
        if end >= self.end:
            return
        self.flush()
        self.segments.truncate_to(end)
        if self.segments.is_empty():
            self._reset(0)
            return
        # Wipe old units after the end, because the next recovery would treat them as valid.
        stop = min(self.end, self.segments.end_of_files)
        if stop > end:
            self.segments.write(end, [bytes(stop - end)])
        self._reset(end)

    def _reset(self, end: i64) -> None:
        self.end = self._tail_at = end
        self._tail = None
        self._seen = b""

    def delete_before(self, address: i64) -> None:
        """Delete leading files that end before the unit at this address."""
        if is_ext_address(address):
            self.segments.delete_before(ext_offset(address))

    def destroy(self) -> None:
        """Delete all files, because the topic was deleted."""
        self.segments.destroy()
        self._reset(0)
