"""The message store: commit log, consume queues and index with one watermark.

RocketMQ's DefaultMessageStore. All methods except `sync_commit_log` belong to the event loop's thread. A message passes
these steps: `append` (memory) -> `write_pending` (kernel) -> `sync_commit_log` (disk) -> `confirm_offset` passes it ->
`dispatch` makes it readable. The store does not read a clock: callers pass `now`, which is ms since the epoch and never
jumps. `times` converts it to the wall clock time of record timestamps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from mypy_extensions import i64

from bolide.dispatch.multi import MultiQueue
from bolide.dispatch.row import Dispatch
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.shape import StoreShape
from bolide.layout.sysflag import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from bolide.store.background.arrival import Arrival
from bolide.store.background.maintenance import Maintenance
from bolide.store.background.reput import Reput
from bolide.store.background.reput_retry import ReputRetry
from bolide.store.background.running_flags import NOT_WRITABLE, RunningFlags
from bolide.store.cut import LogCut
from bolide.store.disk.files import DiskFull, FileFailed, Files, SyncFailed
from bolide.store.disk.jobs import Job, MakeSegment
from bolide.store.disk.lock import lock_store, mark_closed
from bolide.store.disk.segments import HandleCache
from bolide.store.errors import ServiceNotAvailable
from bolide.store.index.index_service import IndexService
from bolide.store.log.appended import Appended
from bolide.store.log.commit_log import CommitLog
from bolide.store.options import Resources, StoreOptions
from bolide.store.queues.consume_queues import ConsumeQueues
from bolide.store.queues.queue_numbers import QueueNumbers
from bolide.store.reading.lookups import Lookups
from bolide.store.startup.inventory import write_inventory
from bolide.store.startup.recovery import RecoveryReport
from bolide.store.startup.start import StoreStart

__all__ = ["Appended", "Arrival", "MessageStore", "RecoveryReport"]


@final
class MessageStore(Lookups):
    """One store folder. `root`: its path; `calc_bitmap`: computes filter bitmaps if the shape enables them."""

    def __init__(
        self,
        files: Files,
        root: str,
        shape: StoreShape,
        options: StoreOptions | None = None,
        calc_bitmap: Callable[[Dispatch], bytes] | None = None,
        resources: Resources | None = None,
    ) -> None:
        options = options or StoreOptions()
        resources = resources or Resources()
        self.files = files
        self.root = root
        self.shape = shape
        self.options = options
        self.handles = HandleCache(files, resources.max_open_files)
        # A separate cache, because unsynced parts of the log are tracked by offset, not by file.
        self.log_handles = HandleCache(files, 64)
        self.reads = self.log_handles.reads = self.handles.reads
        """Read mode of the loop: whether reads may wait for the disk."""
        super().__init__(
            CommitLog(files, root + "/commitlog", shape, options, self.log_handles),
            ConsumeQueues(files, root, shape, self.handles, calc_bitmap),
            IndexService(files, root, shape, self.handles),
            options,
            resources.memory_bytes,
        )
        self.index.enabled = shape.index_enabled and options.index_file_write_enable
        self.times = self.log.times
        self.flags = RunningFlags()
        self.reput = Reput(self.log, self.queues, self.index, shape)
        self.maintenance = Maintenance(files, root, options, self.flags, self.log, self.queues, self.index, self.reput)
        self._retry = ReputRetry(self.reput, self.index, self.flags, self.maintenance)
        self.replicated_offset: i64 = -1
        """Physical offset up to which the replicas that sends wait for have the log, or -1 if sends do not wait."""
        self.failure = ""
        """Reason why the store stopped permanently, or "" while it runs."""
        self.closing: list[Callable[[int], None]] = []
        """Called with `now` after the last sync of the log, to close other data derived from it."""
        self.on_taken_back: list[Callable[[int], None]] = []
        """Called with `written_offset` after a failed write: records at or above it are lost, and their offsets may be
        reused. The broker's background writers use this to move their progress back."""
        self._sync_flush: bool = options.sync_flush
        self._lock = -1
        self._open = False
        self._now: i64 = 0
        self.numbers = QueueNumbers(self.queues)
        self.log_cut = LogCut(root, self.log, self.queues, self.index, self.reput, self.numbers, self.maintenance)
        self._turn: list[Dispatch] = []

    # -- start and end --

    def load(self, now: int) -> RecoveryReport:
        """Lock the folder and recover. Raises `FileLocked`, `StoreDamaged`, `StoreTooNew` or `FileFailed`."""
        self._lock = lock_store(self.files, self.root)
        try:
            return self._load(now)
        except BaseException:
            self._let_go()
            raise

    def _load(self, now: int) -> RecoveryReport:
        self._now = now
        start = StoreStart(self.root, self.shape, self.options, self.log, self.queues, self.index, self.log_cut)
        report = start.run(now)
        self.reput.start_at(report.log_end)
        self.maintenance.run_id = now
        self.maintenance.start(start.checkpoint, report.log_end, report.last_store_timestamp, now)
        self._open = True
        return report

    def close(self, now: int) -> None:
        """Write, sync and dispatch everything, and mark the folder as cleanly closed. A second call does nothing."""
        if self._lock < 0:
            return
        self._open = False
        try:
            if self.failure == "":
                self._settle(now)
        finally:
            try:
                for close in self.closing:
                    close(now)
            finally:
                self._let_go()

    def _let_go(self) -> None:
        self.handles.close()
        self.log_handles.close()
        self.files.unlock(self._lock)
        self._lock = -1

    def _settle(self, now: int) -> None:
        self.write_pending()
        # The sync thread of the node has ended, so this is the only sync on the loop.
        self.log.sync_all()
        backlog = self.confirm_offset - self.dispatched_offset
        while backlog > 0:
            self.dispatch(1 << 16, now)
            left = self.confirm_offset - self.dispatched_offset
            if left == backlog:
                break
            backlog = left
        self.maintenance.close(backlog <= 0, now)
        if self.flags.writable() and backlog <= 0 and not self.maintenance.sync_failed:
            self.queues.deleted.save()
            write_inventory(self.files, self.root, self.log, self.queues, self.index)
            mark_closed(self.files, self.root)

    def stop_writing(self, reason: str) -> None:
        """Stop appending, confirming and retrying after a failed sync of the log or of a new log file.

        After a failed fsync the kernel may have dropped the dirty pages and report success the next time.
        """
        self.failure = reason or "the commit log cannot be written"
        self.flags.set(NOT_WRITABLE)

    def writable(self) -> bool:
        """Return whether sends may be served."""
        return self._open and self.flags.writable()

    def readable(self) -> bool:
        """Return whether pulls may be served."""
        return self._open and self.flags.readable()

    # -- appending --

    def append(self, message: BrokerMessage, now: i64) -> Appended:
        """Add a message to the batch of this turn.

        Raises `MessageIllegal` (13) or `ServiceNotAvailable` (14) without changes.
        """
        self._check_open()
        if message.light_queues is not None:
            return self._append_numbered([message], now)[0]
        log = self.log
        size = log.check(message)
        self._now = now
        self._make_room(size)
        return self._append(message, None, now)

    def append_batch(self, messages: list[BrokerMessage], now: i64) -> list[Appended]:
        """Add all messages contiguously in one file, or raise like `append`."""
        self._check_open()
        log = self.log
        size: i64 = 0
        for message in messages:
            if message.light_queues is not None:
                return self._append_numbered(messages, now)
            size += log.check(message)
        self._now = now
        self._make_room(size)
        return [self._append(message, None, now) for message in messages]

    def _append_numbered(self, messages: list[BrokerMessage], now: i64) -> list[Appended]:
        """Append messages, some of which enter light queues. Their records contain their offsets in these queues.

        Releases these offsets if the messages cannot be appended.
        """
        given: list[MultiQueue] = []
        numbered: list[list[MultiQueue] | None] = []
        size: i64 = 0
        self._now = now
        try:
            for message in messages:
                numbered.append(self.numbers.number(message, given))
                size += self.log.check(message)
            self._make_room(size)
        except BaseException:
            self.numbers.free(given)
            raise
        return [self._append(message, queues, now) for message, queues in zip(messages, numbered, strict=True)]

    def _check_open(self) -> None:
        if not self._open:
            raise ServiceNotAvailable(f"the store {self.root} is closed or closing: send to another broker")
        if not self.flags.writable():
            raise ServiceNotAvailable(f"the store {self.root} rejects messages: {self.flags.describe()}")

    def _make_room(self, size: i64) -> None:
        log = self.log
        before = log.end_offset
        try:
            log.make_room(size)
        except DiskFull as error:
            self.maintenance.retention.write_refused(int(self._now))
            raise ServiceNotAvailable(str(error)) from error
        except SyncFailed as error:
            self.stop_writing(str(error))
            raise ServiceNotAvailable(str(error)) from error
        except FileFailed as error:
            raise ServiceNotAvailable(str(error)) from error
        if log.end_offset != before:
            self.reput.next_file(before, log.end_offset)

    def _append(self, message: BrokerMessage, light_queues: list[MultiQueue] | None, now: i64) -> Appended:
        bits = message.sys_flag & TRANSACTION_MASK
        counted = bits != TRANSACTION_PREPARED and bits != TRANSACTION_ROLLBACK
        queue_offset: i64 = 0
        if counted:
            queue_offset = self.numbers.take(message.topic, message.queue_id)
        d = self.log.append(message, queue_offset, now)
        d.multi = light_queues
        self._turn.append(d)
        self.reput.offer(d)
        return Appended(
            physical_offset=d.physical_offset,
            size=d.size,
            queue_offset=queue_offset,
            store_timestamp=d.store_timestamp,
        )

    def appended(self, dispatches: list[Dispatch], now: i64) -> None:
        """Record the messages that `append_run` added to the log in this turn."""
        self._now = now
        self._turn += dispatches

    def write_pending(self) -> None:
        """Pass all bytes that were appended in this turn to the kernel in one write. Call this at the end of a turn.

        Raises `FileFailed` (`DiskFull`). Then records beyond `written_offset` are rolled back: their queue offsets are
        released, and the caller must fail requests that wait for a higher offset with code 14.
        """
        if not self._turn:
            return
        try:
            self.queues.deleted.save()
            self.log.write_pending()
        except Exception as error:  # whatever the cause: no client has received a response for these records
            if isinstance(error, DiskFull):
                self.maintenance.retention.write_refused(int(self._now))
            self.log.give_up_pending()  # does nothing if the log itself failed
            self._take_back()
            raise
        finally:
            self._turn = []

    def _take_back(self) -> None:
        written = self.log.written_offset
        self.reput.withdraw(written)
        self.numbers.take_back(self._turn, written)
        self.queues.deleted.lower(int(written))
        for tell in self.on_taken_back:
            tell(written)

    # -- the watermark --

    @property
    def end_offset(self) -> i64:
        """Physical offset of the next record."""
        return self.log.end_offset

    @property
    def written_offset(self) -> i64:
        """Offset below which the kernel has all records."""
        return self.log.written_offset

    @property
    def flushed_offset(self) -> i64:
        """Offset below which all records survive a power failure."""
        return self.log.flushed_offset

    @property
    def confirm_offset(self) -> i64:
        """Offset below which records may be dispatched and sends acknowledged: written (async flush) or flushed (sync
        flush)."""
        end = self.log.flushed_offset if self._sync_flush else self.log.written_offset
        if self.replicated_offset >= 0 and self.replicated_offset < end:
            return self.replicated_offset
        return end

    @property
    def dispatched_offset(self) -> i64:
        """Offset below which all records are in queues and index."""
        return self.reput.dispatched_offset

    def flush_target(self, now: i64 = -1) -> i64:
        """Return the offset up to which to sync the log now, or -1. The caller must then call `sync_commit_log` on any
        thread, and `flushed` on the loop."""
        if self.failure:
            return -1
        return self.log.flush_target(now if now >= 0 else self._now)

    def flush_soon(self) -> None:
        """Include everything in the next asynchronous flush, because a caller waits for it."""
        self.log.flush_soon()

    def sync_commit_log(self, target: i64) -> None:
        """Sync the log up to `target`. Raises `FileFailed`; the caller must then call `stop_writing`."""
        self.log.sync()

    def flushed(self, target: i64) -> None:
        """Record that the sync up to `target` is complete. `confirm_offset` may advance."""
        self.log.synced(target, True)

    def dispatch(self, budget: i64, now: i64) -> list[Arrival]:
        """Add up to `budget` confirmed records to queues and index. Return the records that became readable. The next
        call continues."""
        self._now = now
        return self._retry.run(self.confirm_offset, budget, now)

    # -- time --

    def due(self, now: i64) -> i64:
        """Return when to call `tick` next, ms since the epoch. Call `flush_target` at the same time."""
        when = self.maintenance.due(now)
        flush = self.log.due(now)
        return min(when, flush) if flush >= 0 else when

    def tick(self, now: i64, budget: i64 = 1000) -> None:
        """Flush queues and index, advance the checkpoint, and delete expired files. Does not raise."""
        self._now = now
        if self._open:
            self.maintenance.tick(now, budget)

    def jobs(self) -> list[Job]:
        """Return new jobs for a pool. Call `run` of each job on any thread, then `job_done` on the loop."""
        return [] if self.failure else self.maintenance.jobs()

    def delete_expired(self, now: int) -> None:
        """Delete expired log files in the next rounds, at any hour."""
        self.maintenance.retention.delete_now(now)

    def disk_ratio(self) -> float:
        """Return the disk usage (0.0 to 1.0), or -1 if it cannot be determined."""
        try:
            return self.files.disk_use(self.root)
        except FileFailed:
            return -1.0

    def job_done(self, job: Job, error: str = "") -> None:
        """Process a finished job. `error`: text of its exception, or ""."""
        self.maintenance.job_done(job, error)
        if isinstance(job, MakeSegment) and job.sync_failed:
            self.stop_writing(error)

    def clock_set(self, offset: i64) -> None:
        """Set the offset of the wall clock from `now` (ms) for records appended after this call."""
        self.times.step(offset, self.log.end_offset)

    def store_time(self, now: int) -> int:
        """Return a time that no record in the log exceeds, and that later records do not precede."""
        return int(max(self.times.wall(now), self.log.last_store_timestamp))

    # -- the queues --

    def next_queue_offset(self, topic: str, queue_id: int) -> i64:
        """Return the queue offset of the next appended message."""
        return self.numbers.peek(topic, queue_id)

    def holds(self, topic: str, queue_id: int, queue_offset: i64, physical_offset: i64) -> bool:
        """Return whether the record at this physical offset is this message of this queue.

        The bytes alone do not prove it, because a body may contain bytes that look like a record. May block on the
        disk.
        """
        if queue_id < 0 or queue_offset < 0:
            return False
        units = self.units(topic, queue_id, queue_offset, 1)
        if units:
            return units[0][0] == physical_offset
        d = self.reput.waiting_at(physical_offset)
        return d is not None and d.topic == topic and d.queue_id == queue_id and d.queue_offset == queue_offset

    def delete_topic(self, topic: str) -> None:
        """Delete a topic's messages, including those of this turn. Its next message gets queue offset 0.

        Raises `FileFailed` without changes if the tombstone cannot be written.
        """
        end = int(self.log.end_offset)
        if end > 0:  # also of a topic without a queue, because its delayed messages may be in the log
            # After a power failure before the tombstone is synced, the topic still exists. After it, a start drops the
            # existing queues.
            self.queues.deleted.add(topic, end)
        self.numbers.forget(topic)
        self.queues.delete_topic(topic)
