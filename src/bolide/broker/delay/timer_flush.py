"""Flushes the timer's files every timerFlushIntervalMs, once the commit log is synced up to their content.

RocketMQ's TimerFlushService. A checkpoint is recorded when it is true and written later, so it never exceeds the
content of the commit log on disk. After a failed sync no checkpoint is written, because unsynced data may be lost.
"""

from __future__ import annotations

from typing import Any, Final, final

from bolide.broker.core.effects import Effects
from bolide.broker.delay.followed_timer import FollowedTimer
from bolide.broker.delay.timer_metrics import TimerMetrics
from bolide.layout.timer_checkpoint import TimerCheckpoint
from bolide.store.disk.jobs import SyncTimer
from bolide.store.message_store import MessageStore
from bolide.store.timer.timer_files import TimerFiles

METRICS_INTERVAL_MS: Final = 10_000


@final
class TimerFlush:
    """Records and syncs the checkpoints of one timer, every `interval_ms`."""

    def __init__(
        self,
        interval_ms: int,
        store: MessageStore,
        files: TimerFiles,
        metrics: TimerMetrics,
        followed: FollowedTimer,
        effects: Effects,
        now: int,
    ) -> None:
        self.done_to: int = 0
        """End of the last delivered slot, which the checkpoint on disk should reach."""
        self.failed: bool = False
        """Whether a sync has failed since the role of the broker last changed."""
        self.next_sync: int = now + interval_ms
        self.syncing: SyncTimer | None = None
        self._interval_ms = interval_ms
        self._store = store
        self._files = files
        self._metrics = metrics
        self._followed = followed
        self._effects = effects
        self._next_metrics: int = now + METRICS_INTERVAL_MS
        self._noted: tuple[int, TimerCheckpoint] | None = None
        store.on_taken_back.append(self.taken_back)

    def reset(self, files: TimerFiles) -> None:
        """Drop the recorded checkpoint, and continue with these files."""
        self._files = files
        self._noted = self.syncing = None
        self.failed = False

    @property
    def waits_for_log(self) -> bool:
        """Whether a recorded checkpoint waits for a sync of the commit log."""
        return self._noted is not None

    def unsynced(self, queue_offset: int) -> bool:
        """Return whether the checkpoint on disk is older than the wheel and this queue offset."""
        last = self._files.checkpoint
        there = last.queue_offset == queue_offset and last.log_end == self._files.log.end
        return not there or last.read_time < self.done_to

    def is_due(self, now: int) -> bool:
        """Return whether to record a checkpoint now, and schedule the next one after an interval."""
        if self._noted is not None or now < self.next_sync or self.syncing is not None:
            return False
        self.next_sync = now + self._interval_ms
        return True

    def note(self, checkpoint: TimerCheckpoint) -> None:
        """Record the current state until the commit log is synced up to its end."""
        self._noted = (int(self._store.end_offset), checkpoint)
        self._store.flush_soon()

    def go_on(self, now: int) -> None:
        """Sync the recorded checkpoint if the commit log is synced up to it."""
        if self._noted is not None and self._store.flushed_offset >= self._noted[0]:
            checkpoint = self._noted[1]
            self._noted = None
            metrics = None
            if now >= self._next_metrics:
                self._next_metrics = now + METRICS_INTERVAL_MS
                metrics = self._metrics.take()
            self.syncing = self._files.sync_job(checkpoint, metrics)
            self._effects.run(self.syncing, self._synced)

    def taken_back(self, written_offset: int) -> None:
        """Called after a failed write: drop a checkpoint that refers to its records, whose offsets may be reused."""
        if self._noted is not None and self._noted[0] > written_offset:
            self._noted = None

    def _synced(self, job: Any, error: str) -> None:
        done = self.syncing
        if done is None or job is not done:
            return  # the job was started before `reset`
        self.syncing = None
        if error:
            # Unsynced data may be lost without another error, so the checkpoint no longer advances.
            self.failed = True
        else:
            self._files.checkpoint = done.checkpoint
            if self._followed.known:
                self._followed.clear()
