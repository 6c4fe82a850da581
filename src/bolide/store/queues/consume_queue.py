"""ConsumeQueue: positions of one queue's messages in the log, one unit of 20 bytes per message (RocketMQ's
ConsumeQueue).

Unit N of a queue is at byte N*20 of its stream of files. `put` only adds a unit to a small tail in memory, where it can
be read. `ConsumeQueues` calls `flush`, which writes the tail to the (sparse) files. All content is derived from the
log. Recovery starts before the last thorough flush, so it adds units that were lost in a crash.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from bolide.layout.queue_unit import PRE_BLANK, PRE_BLANK_SIZE, UNIT_SIZE
from bolide.store.disk.files import Files
from bolide.store.disk.segments import Extent, HandleCache, SegmentList
from bolide.store.queues.consume_queue_ext import ConsumeQueueExt
from bolide.store.queues.intact_span import IntactSpan
from bolide.store.queues.unit_files import NO_ADDRESS, UnitFiles

TAIL_LIMIT: Final = 400 * UNIT_SIZE
"""Size in bytes at which a queue's tail is written immediately."""


@final
class UnitBacklog:
    """Number of units in the tails of all queues that share this object."""

    def __init__(self) -> None:
        self.units: i64 = 0


@final
class ConsumeQueue:
    """One queue. Queue offsets count units; physical offsets are bytes of the log. All calls raise `FileFailed`."""

    def __init__(
        self,
        files: Files,
        folder: str,
        topic: str,
        queue_id: int,
        segment_size: i64,
        handles: HandleCache,
        ext: ConsumeQueueExt | None = None,
        waiting: UnitBacklog | None = None,
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.ext: ConsumeQueueExt | None = ext
        self.segments = SegmentList(files, folder, int(segment_size), handles)
        self.units_per_file: i64 = segment_size // UNIT_SIZE
        self.min_offset: i64 = 0
        """First unit whose record is still in the log."""
        self.max_offset: i64 = 0
        """Number of units, which is the next queue offset."""
        self.max_physical_offset: i64 = -1
        """End of the last added record, or -1 if there is none. Records that end at or before it are duplicates."""
        self.intact = IntactSpan()
        self.duplicates: i64 = 0
        self.gaps: i64 = 0
        """Number of units with a queue offset past the end. They were appended at the end anyway."""
        self.dirty = False
        """Whether the queue is in the list of queues that `ConsumeQueues` must flush."""
        self._waiting: UnitBacklog = waiting if waiting is not None else UnitBacklog()
        self._tail: BytesWriter | None = None
        self._tail_at: i64 = 0
        self._seen: bytes = b""

    def load(self) -> None:
        """List the files. Deletes the first file with a wrong size or position and all later files, because dispatch
        recreates them. Call `recover` next."""
        self.segments.load(True)
        if self.ext is not None:
            self.ext.load()

    # -- writing --

    def put(
        self, physical_offset: i64, size: i64, tags_code: i64, queue_offset: i64, store_timestamp: i64, bitmap: bytes
    ) -> bool:
        """Append the unit of a record. Return False if it exists already. Raises without changes."""
        if physical_offset + size <= self.max_physical_offset:
            self.duplicates += 1
            return False
        if queue_offset != self.max_offset:
            if self.min_offset >= self.max_offset and queue_offset > self.max_offset:
                # The log no longer has the records of this queue, nor the records of the missing units: a power failure
                # destroyed units of expired records. Later units keep their queue offsets.
                self._fill_pre_blank(queue_offset)
            elif queue_offset > self.max_offset:
                self.gaps += 1
            elif queue_offset != 0:  # Java does not check offset 0, and appends such a record at the end
                self.duplicates += 1
                return False
        code = tags_code
        if self.ext is not None:
            code = self.ext.put(tags_code, store_timestamp, bitmap)
        w = self._tail
        if w is None:
            w = self._tail = BytesWriter()
        write_i64_be(w, physical_offset)
        write_i32_be(w, i32(size))
        write_i64_be(w, code)
        self.max_offset += 1
        self.max_physical_offset = physical_offset + size
        if self._seen:
            self._seen = b""
        self._waiting.units += 1
        return True

    def begins_again(self, physical_offset: i64) -> bool:
        """Return whether the record reuses an offset of this queue although it is newer than all its records: the topic
        was deleted and created again."""
        return 0 <= self.max_physical_offset <= physical_offset

    def is_full(self) -> bool:
        """Return whether the tail must be written now."""
        w = self._tail
        return w is not None and len(w) >= TAIL_LIMIT

    def _fill_pre_blank(self, queue_offset: i64) -> None:
        """Fill the file before the first unit with pre-blank units, if the queue does not start at unit 0."""
        if self.segments.is_empty():
            self.max_offset = queue_offset - queue_offset % self.units_per_file
        at = self.max_offset
        while at < queue_offset:
            room = self.units_per_file - at % self.units_per_file
            count: i64 = min(queue_offset - at, room, 50_000)
            # A crash here leaves too few or too many pre-blank units. Both are treated as units below the first real
            # one.
            self.segments.write(at * UNIT_SIZE, [PRE_BLANK * count])
            at += count
        self.max_offset = self._tail_at = self.min_offset = queue_offset

    def flush(self) -> None:
        """Write the tail to the files. The store syncs them later through its handles."""
        self.write_tail()
        self.dirty = False

    def write_tail(self) -> None:
        """Write the tail to the files. The queue remains in the list of queues to flush."""
        if self.ext is not None:
            self.ext.flush()  # first: a unit in the files must not refer to an unwritten extension
        w = self._tail
        if w is None:
            return
        data = w.getvalue()
        at = self._tail_at
        total: i64 = len(data) // UNIT_SIZE
        done: i64 = 0
        while done < total:
            count: i64 = min(total - done, self.units_per_file - at % self.units_per_file)
            part = data if count == total else data[done * UNIT_SIZE : (done + count) * UNIT_SIZE]
            self.segments.write(at * UNIT_SIZE, [part])
            # After a crash here, the units up to `at` are in the files, and recovery adds the others again.
            at += count
            done += count
        self._waiting.units -= total
        self._tail = None
        self._tail_at = self.max_offset
        self._seen = b""

    # -- reading --

    def units(self, queue_offset: i64, count: i64, wait: bool = False) -> bytes | None:
        """Return up to `count` complete units, starting at an offset and ending at the end of its file or of the queue.
        Return None if they are not in memory.

        With `wait`, units that are not in memory are read from the disk.
        """
        stop: i64 = min(queue_offset + count, self.max_offset, self.next_file(queue_offset))
        if queue_offset >= self._tail_at:
            return self._from_tail(queue_offset, stop)
        in_file: i64 = min(stop, self._tail_at)
        data = self.segments.read_warm(queue_offset * UNIT_SIZE, (in_file - queue_offset) * UNIT_SIZE)
        if data is None and wait:
            data = self.segments.read(queue_offset * UNIT_SIZE, (in_file - queue_offset) * UNIT_SIZE)
        if data is None or in_file == stop or len(data) < (in_file - queue_offset) * UNIT_SIZE:
            return data
        return data + self._from_tail(in_file, stop)

    def _from_tail(self, first: i64, stop: i64) -> bytes:
        if stop <= first:
            return b""
        if not self._seen and self._tail is not None:
            self._seen = self._tail.getvalue()
        return self._seen[(first - self._tail_at) * UNIT_SIZE : (stop - self._tail_at) * UNIT_SIZE]

    def extent(self, queue_offset: i64, count: i64) -> Extent:
        """Return the range of these units in their file, for loading it into memory elsewhere."""
        stop: i64 = min(queue_offset + count, self._tail_at, self.next_file(queue_offset))
        return self.segments.extent(queue_offset * UNIT_SIZE, (stop - queue_offset) * UNIT_SIZE)

    def unit(self, queue_offset: i64) -> tuple[int, int, int] | None:
        """Return physical offset, size and tags code (or ext address) of one unit, or None if there is none. May
        block."""
        if queue_offset < 0 or queue_offset >= self.max_offset:
            return None
        if queue_offset >= self._tail_at:
            data = self._from_tail(queue_offset, queue_offset + 1)
        else:
            data = self.segments.read(queue_offset * UNIT_SIZE, UNIT_SIZE)
        if len(data) < UNIT_SIZE:
            return None
        return read_i64_be(data, 0), read_i32_be(data, 8), read_i64_be(data, 12)

    def end_in_files(self) -> i64:
        """Return the queue offset after the last unit that is in the files."""
        return self._tail_at

    def file_start(self, queue_offset: i64) -> i64:
        """Return the queue offset of the first unit in the file of this unit."""
        return queue_offset - queue_offset % self.units_per_file

    def next_file(self, queue_offset: i64) -> i64:
        """Return the queue offset of the first unit in the file after the file of this unit."""
        return queue_offset - queue_offset % self.units_per_file + self.units_per_file

    # -- recovery --

    def recover(self, clean: bool = False) -> None:
        """Find the end, which is the first invalid unit, searching from the third file from the end. Drop later units.

        After a crash (`clean` is False), wipe the rest of the last file. Otherwise a later recovery would accept units
        that survived after a hole, once new units have filled the hole.
        """
        files = UnitFiles(self.segments)
        end = files.find_end()
        self.max_physical_offset = files.physical_end
        self.segments.truncate_to(end * UNIT_SIZE + 1)
        self._set_end(end)
        if not clean:
            files.wipe_from(end)
            self.segments.sync_later()
        if self.ext is not None:
            self.ext.recover()
            if not clean:
                self.ext.segments.sync_later()
            if files.ext_address != NO_ADDRESS:
                self.ext.truncate_behind(files.ext_address)
        self.min_offset = self.segments.min_offset // UNIT_SIZE

    def _set_end(self, end: i64) -> None:
        w = self._tail
        if w is not None:
            self._waiting.units -= len(w) // UNIT_SIZE
        self.max_offset = self._tail_at = end
        self._tail = None
        self._seen = b""

    def truncate(self, physical_offset: i64) -> None:
        """Drop the units of records at or after a physical offset, the new end of the log."""
        self.flush()
        old = self.max_offset
        end = UnitFiles(self.segments).end_below(old, physical_offset)
        self.segments.truncate_to(end * UNIT_SIZE)
        if self.segments.is_empty():
            end = 0
        # Wipe the old units, because the next recovery would accept them. After a crash before this, it drops them.
        stop: i64 = min(old * UNIT_SIZE, self.segments.end_of_files)
        if stop > end * UNIT_SIZE:
            self.segments.write(end * UNIT_SIZE, [bytes(stop - end * UNIT_SIZE)])
        self._set_end(end)
        last = self.unit(end - 1)
        if last is None:
            # Units deleted by retention may belong to existing records, because log files are deleted later. Recovery
            # adds them again.
            self.max_physical_offset = -1
        elif last[1] == PRE_BLANK_SIZE:
            self.max_physical_offset = physical_offset
        else:
            self.max_physical_offset = last[0] + last[1]
        if self.ext is not None:
            if last is None:
                self.ext.clear()
            else:
                self.ext.truncate_behind(last[2])
        self.min_offset = min(self.min_offset, end)

    # -- the oldest end --

    def delete_before(self, physical_offset: i64) -> list[str]:
        """Delete leading files whose records are all below the log's start, then update `min_offset`."""
        removed: list[str] = []
        while True:
            first = self.segments.min_offset // UNIT_SIZE
            last = self.unit(first + self.units_per_file - 1)
            if last is None or last[0] >= physical_offset:
                break
            gone = self.segments.delete_before((first + self.units_per_file) * UNIT_SIZE, 1)
            if not gone:
                break
            removed += gone
        self.correct_min_offset(physical_offset)
        return removed

    def correct_min_offset(self, physical_offset: i64) -> None:
        """Set `min_offset` to the first unit whose record is at or after the start of the log, or to the end."""
        low = max(self.min_offset, self.segments.min_offset // UNIT_SIZE)
        high = self.max_offset
        if low > high:
            low = high
        while low < high:
            middle = (low + high) // 2
            unit = self.unit(middle)
            # Pre-blank units refer to byte 0, which is in the log of a young store, but they are not messages.
            if unit is not None and unit[0] >= physical_offset and unit[1] != PRE_BLANK_SIZE:
                high = middle
            else:
                low = middle + 1
        self.min_offset = low
        if self.ext is not None:
            unit = self.unit(low)
            if unit is not None:
                self.ext.delete_before(unit[2])

    def destroy(self) -> None:
        """Delete all files and the folder, because the topic or the log was deleted."""
        self.dirty = False
        self.segments.destroy()
        if self.ext is not None:
            self.ext.destroy()
        self._set_end(0)
        self.min_offset = 0
        self.max_physical_offset = -1
