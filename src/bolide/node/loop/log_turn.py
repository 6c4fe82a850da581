"""The log's part of a turn: one write, the flush, dispatch, and the responses that wait for them.

The executor defers the response of a send. This module sends it once the log contains the record or has failed.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from bolide.broker.core.stats import BrokerStats
from bolide.node.loop.host_protocol import Host, Replication
from bolide.node.loop.outbox import Outbox
from bolide.node.loop.parked import ParkedReplies, ParkedReply, note_times
from bolide.remoting import codes
from bolide.store.background.arrival import Arrival
from bolide.store.disk.files import SyncFailed
from bolide.store.disk.jobs import Job
from bolide.store.message_store import MessageStore

DISPATCH_BUDGET: Final = 4000
"""Maximum number of records dispatched in one turn, so that a backlog does not block the connections."""


@final
class LogTurn:
    """Advances the log of one executor, and completes the sends that wait for it."""

    def __init__(
        self,
        store: MessageStore,
        host: Host,
        stats: BrokerStats,
        parked: ParkedReplies,
        outbox: Outbox,
        patience: int,
        replication: Replication | None,
    ) -> None:
        """`patience`: maximum time that a send waits for the log, ms. `replication`: None for a standalone broker."""
        self._store: MessageStore = store
        self._host: Host = host
        self._stats: BrokerStats = stats
        self._parked: ParkedReplies = parked
        self._outbox: Outbox = outbox
        self._flush_timeout_ms: int = patience
        self._dispatched: i64 = -1
        self.failed: bool = False
        """Whether a sync has failed. The log is then no longer written."""
        self.replication: Replication | None = replication

    def advance(self, now: int) -> list[Arrival] | None:
        """Write, flush, replicate and dispatch. Return the messages that became readable, or None if the log cannot be
        written."""
        store = self._store
        if store.failure:  # a new log file could not be synced
            self.flush_failed(SyncFailed(store.failure))
            return None
        try:
            store.write_pending()
        except Exception as error:  # a full disk or worse; the store has rolled back the records appended in this turn
            self._not_written(store.written_offset, error)
        unwaited = self._parked.take_unwaited()
        note_times(unwaited, now + self._flush_timeout_ms, self._stats.put_times)
        for entry in unwaited:
            self._leave(entry)
        target = store.flush_target(now)  # also -1 while a sync is running: the next sync covers all pending writes
        if target >= 0:
            self._host.start_flush(int(target))
        replication = self.replication
        if replication is not None:
            replication.turn(now)
        return store.dispatch(DISPATCH_BUDGET, now)

    def answer(self, now: int) -> None:
        """Send the responses whose records are dispatched, and start pending jobs of the store."""
        store, replication = self._store, self.replication
        confirmed = self._parked.take_confirmed(store.dispatched_offset)
        sends = note_times(confirmed, now + self._flush_timeout_ms, self._stats.put_times)
        if sends:
            self._stats.batches.add(sends)
        for entry in confirmed:
            if replication is not None and replication.late(int(entry.offset)):
                entry.comes_late(codes.FLUSH_SLAVE_TIMEOUT)
            if entry.tables is None:
                self._leave(entry)
            else:
                self.confirmed(entry)
        if store.dispatched_offset < store.confirm_offset and self._progress(store):
            self._host.another_turn()
        for job in store.jobs():
            self._host.run(job, self._job_done)

    def _progress(self, store: MessageStore) -> bool:
        """Return whether dispatch advanced since the last call. If not, it is blocked by a bad record, and a timer
        retries instead of the next turn."""
        stuck = store.dispatched_offset == self._dispatched
        self._dispatched = store.dispatched_offset
        return not stuck

    def _not_written(self, written: i64, error: Exception) -> None:
        """Fail the sends whose records were not written. A later turn may succeed."""
        self._host.failed("a write of the commit log", error)
        text = f"the message could not be written: {error}"
        for entry in self._parked.take_beyond(written):
            self._stats.put_failed += entry.sends
            entry.fail(text)
            self._leave(entry)

    def _job_done(self, job: Job, error: str) -> None:
        self._store.job_done(job, error)
        if self._store.failure:
            self._host.another_turn()

    def confirmed(self, entry: ParkedReply) -> None:
        """Send a pending reply whose record is in the log, unless it also waits for a table."""
        tables = entry.tables
        if tables is not None and not tables.done:
            tables.confirmed.append(entry)
        elif tables is not None and tables.error:
            text = f"the message is stored, but its topic may be gone after a restart: {tables.error}"
            entry.fail(text)
            self._leave(entry)
        else:
            self._leave(entry)

    def _leave(self, entry: ParkedReply) -> None:
        """Send a pending reply, whose code is final now."""
        if entry.after is not None:
            entry.after()
        self._outbox.send(entry.channel, entry.response)

    def flush_failed(self, error: BaseException) -> None:
        """Called when a sync of the log failed, so its pages cannot be trusted. Fails all pending sends and stops the
        broker."""
        if not self.failed:
            self.failed = True
            self._store.stop_writing(str(error))
            self.refuse_parked(f"the log could not be synced: {error}", failed=True)
            self._host.store_failed(error)
            self._host.another_turn()

    def refuse_parked(self, text: str, *, failed: bool) -> None:
        """Fail all pending sends, because it is no longer known whether the log will keep their records. `failed`
        counts them as failed writes; a planned switch of masters does not."""
        for entry in self._parked.take_all():
            if failed:
                self._stats.put_failed += entry.sends
            entry.fail(text)
            self._leave(entry)

    def answer_late(self, now: int) -> None:
        """Complete the sends that have waited too long for the log."""
        late = self._parked.take_late(now)
        note_times(late, now + self._flush_timeout_ms, self._stats.put_times)
        for entry in late:
            entry.comes_late(self._late_code(entry))
            self._leave(entry)

    def _late_code(self, entry: ParkedReply) -> int:
        """Return the code for a send that timed out: FLUSH_SLAVE_TIMEOUT takes precedence over FLUSH_DISK_TIMEOUT, as
        in RocketMQ."""
        if self.replication is not None and self.replication.late(int(entry.offset)):
            return codes.FLUSH_SLAVE_TIMEOUT
        return codes.FLUSH_DISK_TIMEOUT
