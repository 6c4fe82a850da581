"""Periodic work of the store: flushes queues and index, advances the checkpoint, deletes files, creates log files
ahead.

RocketMQ's FlushConsumeQueueService, StoreCheckpoint timing and the cleaners, as one object with `due` and `tick`. Slow
parts become jobs for the node's pool.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from bolide.layout.checkpoint import Checkpoint
from bolide.store.background.checkpoint_hold import CheckpointHold
from bolide.store.background.reput import Reput
from bolide.store.background.retention import Retention
from bolide.store.background.running_flags import LOGIC_QUEUE_ERROR, RunningFlags
from bolide.store.background.sealed import Sealed
from bolide.store.disk.checkpoint_file import write_checkpoint
from bolide.store.disk.files import FileFailed, Files, SyncFailed
from bolide.store.disk.jobs import Job, MakeSegment, RemoveFiles, ReserveBlocks, SyncDerived, WriteCheckpoint
from bolide.store.index.index_service import IndexService
from bolide.store.log.commit_log import CommitLog
from bolide.store.options import StoreOptions
from bolide.store.queues.consume_queues import ConsumeQueues

CHECKPOINT_INTERVAL: Final = 1000
QUEUES_AT_ONCE: Final = 16
"""Number of queues flushed in one tick: creating a first file for each takes about 10 ms. The next turn continues."""
MAX_FLUSH_TRIES: Final = 30
"""Number of consecutive failed flushes, one per second, after which sends are rejected, because unwritten units use
memory."""
THOROUGH_BYTES: Final = 256 * 1024 * 1024
"""A thorough flush is also due after this many bytes of log, which limits the work of recovery."""


class Maintenance:
    """Maintenance of one store. Times are ms since the epoch."""

    def __init__(
        self,
        files: Files,
        root: str,
        options: StoreOptions,
        flags: RunningFlags,
        log: CommitLog,
        queues: ConsumeQueues,
        index: IndexService,
        reput: Reput,
    ) -> None:
        self._files = files
        self._root = root
        self._options = options
        self._flags = flags
        self._log = log
        self._queues = queues
        self._index = index
        self._reput = reput
        self.retention = Retention(files, root, options, flags, log.segments)
        self._hold = CheckpointHold(root, int(log.segment_size))
        self.checkpoint = Checkpoint()
        self.failed_flushes = 0
        self.dispatch_fails = False
        """Whether dispatch cannot write a queue. If so, a successful flush does not clear LOGIC_QUEUE_ERROR."""
        self.problem = ""
        """Last problem, for the node's log. `take_problem` removes it."""
        self.run_id = 0
        """Number of this run, as in the run marker."""
        self.confirmed: Callable[[], int] | None = None
        """Returns the offset below which the log is never truncated, for the checkpoint. None: the whole log."""
        self.held: Callable[[], int] | None = None
        """Returns the offset below which all members of the broker's set hold its log, or None without a controller."""
        self._jobs: list[Job] = []
        self._gone: list[str] = []
        """Paths of expired log files that no job deletes yet, oldest first."""
        self._removing = False
        self._making: list[int] = []
        """Start offsets of log files that the pool is creating, and may create at any time until it reports."""
        self._out: list[Job] = []
        """Jobs in the pool."""
        self._syncing = False
        self.sync_failed = False
        """Whether a sync of queues or index failed: the checkpoint no longer advances, and the next start recovers."""
        self._next_flush = 0
        self._next_thorough = 0
        self._next_checkpoint = 0
        self.sealed = Sealed()
        self._whole_round = False
        """Whether the current flush round writes all dirty queues and a sync follows it."""
        self._flushing: Checkpoint | None = None
        """Checkpoint that is valid once the current flush round has ended."""

    def start(self, checkpoint: Checkpoint, end: int, store_timestamp: int, now: int) -> None:
        """Start the intervals. The first thorough flush is due soon and syncs what recovery dispatched."""
        self.checkpoint = checkpoint
        self._next_flush = now + self._options.flush_interval_consume_queue
        self._next_thorough = self._next_flush
        self._next_checkpoint = now + CHECKPOINT_INTERVAL
        self.sealed.started(end)
        self.retention.start(now)

    def due(self, now: int) -> int:
        """Return when to call `tick` next."""
        return min(self._next_flush, self._next_checkpoint, self.retention.due())

    def tick(self, now: int, budget: int) -> None:
        """Do the work that is due."""
        if now >= self._next_flush:
            self._flush(now)
        if now >= self._next_checkpoint:
            self._next_checkpoint = now + CHECKPOINT_INTERVAL
            self._move_checkpoint()
        if now >= self.retention.next_round:
            try:
                self._clean(now)
            except FileFailed as error:
                self.problem = str(error)  # the next round retries
        self.retention.look_again(now)

    def jobs(self) -> list[Job]:
        """Return new jobs for the pool."""
        log, ahead = self._log, self._log.ahead
        start = ahead.next_segment(log.end_offset)
        if start >= 0:
            path = log.segments.path_for(start)
            size, blocks = int(log.segment_size), int(ahead.first_blocks())
            self._jobs.append(MakeSegment(self._files, path, int(start), size, blocks))
            self._making.append(int(start))
        stretch = ahead.next_blocks(log.end_offset)
        if stretch is not None:
            self._jobs.append(ReserveBlocks(self._files, stretch.path, int(stretch.offset), int(stretch.size)))
        if not self._jobs:
            return []
        taken = self._jobs
        self._jobs = []
        self._out += taken
        return taken

    @property
    def busy(self) -> bool:
        """Whether a pool job is queued or running. Jobs refer to the current log files, so the log must not be
        truncated until they finish."""
        return bool(self._out or self._jobs)

    def was_cut(self, checkpoint: Checkpoint) -> None:
        """Called after a truncation of the log: everything is synced, and this is the checkpoint on disk."""
        self.checkpoint = checkpoint
        self._flushing = None

    def job_done(self, job: Job, error: str) -> None:
        """Process a finished job, on the loop."""
        self._out = [other for other in self._out if other is not job]
        if error:
            self.problem = f"could not {job.name}: {error}"
        if isinstance(job, MakeSegment):
            self._making.remove(job.start)
            self._log.ahead.segment_ready(job.start, not error)
        elif isinstance(job, ReserveBlocks):
            if error:
                self._log.ahead.blocks_refused(self._log.end_offset)
        elif isinstance(job, SyncDerived):
            self._syncing = False
            if job.sync_failed:
                # Unsynced data may be lost without another error, so the checkpoint must not advance past it.
                self.sync_failed = True
            elif error:
                # Out of descriptors or disk space. No data is lost; the next flush retries.
                self._queues.handles.put_back(job.paths, job.folders)
                self._next_thorough = 0
            else:
                self.checkpoint = job.checkpoint
                self.sealed.synced()
        elif isinstance(job, WriteCheckpoint):
            self._syncing = False
            if not error:
                self.checkpoint = job.checkpoint
        elif isinstance(job, RemoveFiles):
            self._removing = False
            if error:
                self._gone = job.paths + self._gone  # the next round retries
            elif self._gone:
                self._remove_files()
            else:
                # If this fails, the next round that deletes log files retries.
                self.problem = self._clean_derived() or self.problem

    def clean_derived(self) -> str:
        """Delete files of queues and index for deleted log files. Return the reason of a failure, or "".

        Does nothing while log files are pending deletion, because it runs automatically afterwards.
        """
        return "" if self._removing or self._gone else self._clean_derived()

    def _clean_derived(self) -> str:
        """Delete queue and index files after the oldest log files are durably deleted. If queue files were deleted
        first, a power failure could restore the log files, and the queue would restart at 0 and assign its offsets
        twice."""
        begin = int(self._log.segments.min_offset)
        self._queues.deleted.forget_below(begin)
        try:
            self._queues.delete_before(begin)
            self._index.delete_before(begin)
        except FileFailed as error:
            return str(error)
        return ""

    def take_problem(self) -> str:
        """Return the last problem since the previous call as a sentence, or ""."""
        taken, self.problem = self.problem, ""
        return taken

    def close(self, drained: bool, now: int) -> None:
        """Write and sync everything, then the checkpoint, on this thread. Raises `FileFailed`."""
        if self._reput.sync_failed:
            self.sync_failed = True
        self._queues.close()
        self._index.close()
        paths, folders = self._queues.handles.take_unsynced()
        if not self.sync_failed and self._flags.dispatch_allowed():
            SyncDerived(self._files, self._root, paths, folders, self._noted()).run()
        else:
            write_checkpoint(self._files, self._root, self._log_times(self.checkpoint))

    # -- flush --

    def _flush(self, now: int) -> None:
        """Flush some queues; after the last of them, flush the index and wait for the next round."""
        next_round = now + self._options.flush_interval_consume_queue
        if not self._flags.dispatch_allowed():
            self._next_flush = next_round
            return
        if self._flushing is None:
            self._flushing = self._noted()
            self.sealed.round_began(int(self._reput.dispatched_offset), int(self._log.flushed_offset))
            grown = self.sealed.grown(int(self._reput.dispatched_offset))
            self._whole_round = now >= self._next_thorough or grown >= THOROUGH_BYTES
            # Dispatch may have started its own round under memory pressure; `noted` would not be valid at its end.
            self._queues.begin_round(self._whole_round)
        noted = self._flushing
        try:
            if not self._queues.flush_some(QUEUES_AT_ONCE, self._whole_round):
                return  # still due: the next tick continues
            self._next_flush = next_round
            self._flushing = None
            self._index.flush()
        except FileFailed as error:
            self._next_flush = next_round
            self.queue_write_failed(error)
            return
        self.failed_flushes = 0
        if not self.dispatch_fails:
            self._flags.clear(LOGIC_QUEUE_ERROR)
        if self._whole_round:
            self._sync(noted, now)

    def queue_write_failed(self, error: FileFailed) -> None:
        """Process a failed write of a queue or index file. After 30 consecutive failures, sends are rejected until a
        write succeeds."""
        self.failed_flushes += 1
        self.problem = str(error)
        if isinstance(error, SyncFailed):
            self.sync_failed = True
        if self.failed_flushes >= MAX_FLUSH_TRIES:
            self._flags.set(LOGIC_QUEUE_ERROR)

    def _sync(self, noted: Checkpoint, now: int) -> None:
        if self._reput.sync_failed:
            self.sync_failed = True
        if self._syncing or self.sync_failed:
            return
        self._next_thorough = now + self._options.flush_consume_queue_thorough_interval
        self.sealed.sync_began(int(self._reput.dispatched_offset))
        paths, folders = self._queues.handles.take_unsynced()
        if not paths and not folders and noted == self.checkpoint:
            self.sealed.synced()
            return
        self._syncing = True
        self._jobs.append(SyncDerived(self._files, self._root, paths, folders, noted))

    def _noted(self) -> Checkpoint:
        """Return the checkpoint that is valid once everything dispatched so far is synced."""
        noted = self._log_times(self.checkpoint)
        if self._reput.dispatched_offset > 0:
            # Never ahead of the log: with an asynchronous flush, dispatch precedes the sync. Otherwise a start could
            # skip log files that a power failure has partly destroyed.
            synced, flushed_at = int(self._log.flushed_offset), int(self._log.flushed_timestamp)
            stored_at = int(self._reput.last_store_timestamp)
            noted = replace(
                noted,
                logics_msg_timestamp=min(stored_at, flushed_at) if stored_at else noted.logics_msg_timestamp,
                logics_physical_offset=max(min(int(self._reput.last_physical_offset), synced - 1), 0),
            )
        return replace(noted, index_msg_timestamp=int(self._index.index_msg_timestamp))

    def _log_times(self, checkpoint: Checkpoint) -> Checkpoint:
        if self.confirmed is not None:
            confirmed = min(self.confirmed(), int(self._log.flushed_offset))
            checkpoint = replace(checkpoint, confirm_physical_offset=confirmed)
        if self.held is not None:
            checkpoint = replace(checkpoint, held_offset=min(self.held(), int(self._log.flushed_offset)))
        return replace(
            checkpoint,
            physic_msg_timestamp=int(self._log.flushed_timestamp),
            run_id=self.run_id,
            synced_end=int(self._log.flushed_offset),
        )

    def _move_checkpoint(self) -> None:
        """Write the checkpoint if the times or offsets of the log have changed."""
        moved = self._log_times(self.checkpoint)
        if moved != self.checkpoint and not self._syncing:
            self._syncing = True
            self._jobs.append(WriteCheckpoint(self._files, self._root, moved))

    # -- cleaning --

    def _clean(self, now: int) -> None:
        # A file that a slow pool is still creating could be recreated after its deletion, leaving a log with a gap.
        keep_from = min(self._making, default=int(self._log.segments.end_of_files))
        covered = self._hold.keep_from(self.checkpoint)
        paths = self.retention.round(now, int(self._log.times.wall(now)), min(keep_from, covered))
        self._gone += paths
        self._remove_files()
        held = self.retention.held and covered < keep_from
        self._next_thorough = 0 if held else self._next_thorough
        self.problem = self._hold.problem(covered, held, self.sync_failed) or self.problem
        if paths:
            # Queue files remain until the log files are deleted: reads skip units that refer below the log.
            self._queues.begin_at(int(self._log.segments.min_offset))

    def _remove_files(self) -> None:
        """Start one job at a time, oldest file first also after a failure, because a start rejects a log with a gap."""
        if self._gone and not self._removing:
            self._removing = True
            self._jobs.append(RemoveFiles(self._files, self._gone))
            self._gone = []
