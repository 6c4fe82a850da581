"""The flush of the timer's files: every timerFlushIntervalMs, once the commit log is on disk as far as they say.

RocketMQ's TimerFlushService. A checkpoint is noted when it is true and written later, so it never says more than the
commit log holds on disk. After a sync that failed no checkpoint is written any more: what was not synced may be lost.
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
    """Notes and syncs the checkpoints of one timer, every `interval_ms`."""

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
        """End of the last slot that is over: the checkpoint on disk should get there."""
        self.failed: bool = False
        """True after a sync that failed, until the role of the broker changes."""
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
        """Forget what was noted of the files before; these are next."""
        self._files = files
        self._noted = self.syncing = None
        self.failed = False

    @property
    def waits_for_log(self) -> bool:
        """True while a checkpoint is noted and the commit log is not on disk up to there."""
        return self._noted is not None

    def unsynced(self, queue_offset: int) -> bool:
        """True when the checkpoint on disk says less than the wheel and this queue offset do."""
        last = self._files.checkpoint
        there = last.queue_offset == queue_offset and last.log_end == self._files.log.end
        return not there or last.read_time < self.done_to

    def is_due(self, now: int) -> bool:
        """True when it is time to note a checkpoint and none is under way; the next time is an interval later."""
        if self._noted is not None or now < self.next_sync or self.syncing is not None:
            return False
        self.next_sync = now + self._interval_ms
        return True

    def note(self, checkpoint: TimerCheckpoint) -> None:
        """Keep what is true now until the commit log is on disk up to its end."""
        self._noted = (int(self._store.end_offset), checkpoint)
        self._store.flush_soon()

    def go_on(self, now: int) -> None:
        """Sync what was noted, if the commit log is on disk up to there."""
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
        """A write failed. What that turn noted refers to records that are gone; other records may get their place."""
        if self._noted is not None and self._noted[0] > written_offset:
            self._noted = None

    def _synced(self, job: Any, error: str) -> None:
        done = self.syncing
        if done is None or job is not done:
            return  # of the timer before the role changed
        self.syncing = None
        if error:
            # What was not synced may be lost and never reported again: the checkpoint stays where it is.
            self.failed = True
        else:
            self._files.checkpoint = done.checkpoint
            if self._followed.known:
                self._followed.clear()
