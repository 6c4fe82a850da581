"""Reput: dispatches confirmed records of the log to queues and index (RocketMQ's ReputMessageService).

Appended records are queued here as `Dispatch` objects, so the log is read back only after a restart, on a slave, or
after a large backlog. Records past the confirm offset are not processed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from librt.strings import read_i32_be
from mypy_extensions import i64

from bolide.dispatch.multi import LMQ_QUEUE_ID, MultiQueue
from bolide.dispatch.row import Dispatch, scan_records
from bolide.layout.record import BAD_SIZED, BLANK, BLANK_SIZE, GOOD
from bolide.layout.shape import StoreShape
from bolide.store.background.arrival import Arrival
from bolide.store.disk.files import FileFailed, SyncFailed
from bolide.store.index.index_service import IndexService
from bolide.store.log.commit_log import CommitLog
from bolide.store.queues.consume_queues import ConsumeQueues

PENDING_LIMIT: Final = 65536
"""Maximum number of dispatches in memory. Records appended beyond it are read back from the log."""
_CHUNK: Final = 256 * 1024
_MAX_SKIPS: Final = 100
_MAX_JUMPS: Final = 64


@final
class Skip:
    """Bytes of the log that dispatch skipped, and the reason. The node logs and counts them."""

    def __init__(self, physical_offset: i64, size: i64, reason: str) -> None:
        self.physical_offset: i64 = physical_offset
        self.size: i64 = size
        self.reason: str = reason

    def __str__(self) -> str:
        return f"dispatch skipped {self.size} bytes of the log at offset {self.physical_offset}: {self.reason}"


@final
class Reput:
    """The dispatch of one store: queues and index contain every record below `dispatched_offset`."""

    def __init__(self, log: CommitLog, queues: ConsumeQueues, index: IndexService, shape: StoreShape) -> None:
        self.log = log
        self.queues = queues
        self.index = index
        self.shape = shape
        self.jump_over_bad = True
        """Whether to skip records without a valid size, as on a master. A slave waits instead, because its master may
        resend them."""
        self.copied: Callable[[str, int], None] | None = None
        """Called on a slave with the topic and the size of each dispatched record of its master. A master
        counts its records when it appends them."""
        self.dispatched_offset: i64 = 0
        self.last_store_timestamp: i64 = 0
        """Store time of the last dispatched record, or 0 before the first."""
        self.last_physical_offset: i64 = 0
        """Start of the last dispatched record. Before the first, the last byte that recovery has dispatched, or 0."""
        self.sync_failed = False
        """Whether a sync of an index file failed. The next sync would not report the lost bytes."""
        self.skipped_records: i64 = 0
        self.skipped_bytes: i64 = 0
        self._skips: list[Skip] = []
        self._pending: list[Dispatch] = []
        self._head = 0
        self._jumps: dict[int, int] = {}

    def start_at(self, offset: i64) -> None:
        """Set the offset below which recovery has dispatched everything, or to which the log was truncated."""
        self.dispatched_offset = offset
        # The checkpoint contains it. If it only moved with the next record, a full disk, which prevents that record,
        # would also keep retention from deleting files.
        self.last_physical_offset = max(offset - 1, 0)

    # -- from append --

    def offer(self, d: Dispatch) -> None:
        """Queue the dispatch of a record that was just appended."""
        if len(self._pending) - self._head < PENDING_LIMIT:
            self._pending.append(d)

    def next_file(self, before: i64, after: i64) -> None:
        """Record that the log continues in the next file: there is no record between these offsets."""
        if len(self._jumps) >= _MAX_JUMPS:
            self._jumps.clear()  # the blank record also shows it
        self._jumps[int(before)] = int(after)

    def withdraw(self, physical_offset: i64) -> None:
        """Drop records at or after this offset, which could not be written."""
        pending = self._pending
        while len(pending) > self._head and pending[-1].physical_offset >= physical_offset:
            pending.pop()
        for before in [at for at in self._jumps if at >= physical_offset]:
            del self._jumps[before]

    def waiting_at(self, physical_offset: i64) -> Dispatch | None:
        """Return the pending dispatch of the record at this offset, or None if there is no record or it is
        dispatched."""
        pending = self._pending
        low: i64 = self._head
        high: i64 = len(pending)
        while low < high:
            middle: i64 = (low + high) // 2
            d = pending[middle]
            if d.physical_offset == physical_offset:
                return d
            if d.physical_offset < physical_offset:
                low = middle + 1
            else:
                high = middle
        return None

    def backlog(self, confirm_offset: i64) -> i64:
        """Return the number of confirmed bytes that are not dispatched."""
        return max(confirm_offset - self.dispatched_offset, 0)

    # -- dispatch --

    def run(self, confirm_offset: i64, budget: i64, now: i64) -> list[Arrival]:
        """Dispatch up to `budget` records below the confirm offset. Return the records that entered a queue, in log
        order.

        Raises `FileFailed` if a derived file cannot be written: the next call starts with the same record. Records
        dispatched before it in this call are returned first, and the next call raises. Java abandons such a file after
        some attempts, with its units; here dispatch waits until it can be written.
        """
        arrivals: list[Arrival] = []
        self.queues.make_room()
        try:
            self._run(confirm_offset, budget, now, arrivals)
        except FileFailed as error:
            if isinstance(error, SyncFailed):
                self.sync_failed = True
            if not arrivals:
                raise
        return arrivals

    def _run(self, confirm_offset: i64, budget: i64, now: i64, arrivals: list[Arrival]) -> None:
        while budget > 0 and self.dispatched_offset < confirm_offset and not self.queues.stuck:
            before = self.dispatched_offset
            if self._head < len(self._pending):
                first = self._pending[self._head].physical_offset
                if first == before:
                    budget -= self._from_memory(confirm_offset, budget, now, arrivals)
                elif first < before:
                    self._head += 1  # already dispatched by recovery or from the log
                    continue
                elif self._jumps.get(int(before), -1) == first:
                    del self._jumps[int(before)]
                    self.dispatched_offset = min(first, confirm_offset)
                else:
                    budget -= self._from_log(min(first, confirm_offset), budget, now, arrivals)
            else:
                budget -= self._from_log(confirm_offset, budget, now, arrivals)
            if self.dispatched_offset == before:
                break

    def _from_memory(self, confirm_offset: i64, budget: i64, now: i64, arrivals: list[Arrival]) -> i64:
        pending = self._pending
        used: i64 = 0
        head = self._head
        stop = len(pending)
        while head < stop and used < budget:
            d = pending[head]
            end = d.physical_offset + d.size
            if d.physical_offset != self.dispatched_offset or end > confirm_offset or self.queues.stuck:
                break
            self._apply(d, now, arrivals)
            self.dispatched_offset = end
            head += 1
            self._head = head
            used += 1
        if head == stop:
            self._pending = []
            self._head = 0
        elif head > 4096:
            del pending[:head]
            self._head = 0
        return used

    def _apply(self, d: Dispatch, now: i64, arrivals: list[Arrival]) -> None:
        """Add one record to its queue (with its extension), then to the index."""
        if self.queues.put(d):
            arrivals.append(
                Arrival(
                    d.topic,
                    int(d.queue_id),
                    int(d.queue_offset + 1),
                    int(d.tags_code),
                    int(d.store_timestamp),
                    d.properties,
                )
            )
            if d.multi is not None:
                self._arrived_too(d, d.multi, arrivals)
        self.index.put(d, now)
        self.last_store_timestamp = d.store_timestamp
        self.last_physical_offset = d.physical_offset

    def _arrived_too(self, d: Dispatch, multi: list[MultiQueue], arrivals: list[Arrival]) -> None:
        for light in multi:
            end = int(light.queue_offset + 1)
            arrivals.append(
                Arrival(light.topic, LMQ_QUEUE_ID, end, int(d.tags_code), int(d.store_timestamp), d.properties)
            )

    def _from_log(self, stop: i64, budget: i64, now: i64, arrivals: list[Arrival]) -> i64:
        """Dispatch records from the log, at most to the end of the current file. Return the number of records."""
        log = self.log
        start = log.segments.min_offset
        if self.dispatched_offset < start:
            self._skip(start - self.dispatched_offset, False, "it was deleted before it was dispatched")
            return 0
        at = self.dispatched_offset
        segment_end = at - at % log.segment_size + log.segment_size
        room: i64 = min(stop, segment_end) - at
        data = log.segments.read(at, min(room, _CHUNK))
        written: i64 = min(log.written_offset, segment_end) - at
        if len(data) >= BLANK_SIZE:
            size: i64 = i64(read_i32_be(data, 0))
            if len(data) < size <= room:
                data = log.segments.read(at, size)
            elif room < size <= written:
                return 0  # only the start of this record is confirmed, because replicas acknowledge bytes, not records
        elif room < written:
            return 0
        scanned = scan_records(data, 0, len(data), self.shape, False, budget)
        done: i64 = 0
        copied = None if self.jump_over_bad else self.copied
        for d in scanned.dispatches:
            self._apply(d, now, arrivals)
            self.dispatched_offset += d.size
            done += 1
            if copied is not None:
                copied(d.topic, int(d.size))
            if self.queues.stuck:
                return done
        if scanned.status == GOOD or (done > 0 and scanned.status != BLANK):
            return done  # the next chunk starts with the rest, whatever is wrong with it
        if scanned.status == BLANK:
            self.dispatched_offset = segment_end
        elif scanned.status == BAD_SIZED:
            self._skip(scanned.size, True, "its parts do not add up to its size")
        elif self.jump_over_bad:
            # As in Java: skip the rest of the file up to its written end.
            self._skip(written, True, "size, magic or lengths are wrong, so the rest of the file cannot be read")
        return done

    def _skip(self, size: i64, a_record: bool, reason: str) -> None:
        if a_record:
            self.skipped_records += 1
        self.skipped_bytes += size
        if len(self._skips) < _MAX_SKIPS:
            self._skips.append(Skip(self.dispatched_offset, size, reason))
        self.dispatched_offset += size

    def take_skips(self) -> list[Skip]:
        """Return the ranges skipped since the last call, at most 100. The counters include all of them."""
        taken = self._skips
        self._skips = []
        return taken
