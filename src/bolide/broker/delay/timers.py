"""Delivers messages with arbitrary delays: from the timer topic into the wheel, and out of it when they are due.

RocketMQ's TimerMessageStore. A message past the window is rolled: when its slot is due, it is stored in the timer topic
again. A delete waits in the slot of its message. Delivery is at least once: the checkpoint never exceeds the content of
the commit log on disk, so a crash repeats the deliveries since the last checkpoint, one or two seconds ago. Deliveries
of a failed write are redelivered first, and no checkpoint is recorded before that.
"""

from __future__ import annotations

from typing import Final, final

from bolide.broker.append.log_writer import LogWriter
from bolide.broker.append.timer_rules import TimerRules
from bolide.broker.core.channel import Channel
from bolide.broker.core.effects import Effects
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.role import Role
from bolide.broker.core.service import Routes, Service
from bolide.broker.cursor.cold_loads import ColdLoads
from bolide.broker.cursor.queue_cursor import MAX_UNCONFIRMED, UNITS_AT_ONCE, QueueCursor
from bolide.broker.delay.damaged_delays import DamagedDelays
from bolide.broker.delay.followed_timer import FollowedTimer
from bolide.broker.delay.timer_delivery import Delivery
from bolide.broker.delay.timer_enqueue import TimerEnqueue
from bolide.broker.delay.timer_flush import TimerFlush
from bolide.broker.delay.timer_metrics import TimerMetrics
from bolide.broker.delay.timer_slot import COLD, DAMAGED, OVER, REFUSED, SlotRun
from bolide.broker.options.composed import BrokerOptions
from bolide.layout import property_names as names
from bolide.layout.names import TIMER_TOPIC
from bolide.layout.timer import floor_time
from bolide.layout.timer_checkpoint import TimerCheckpoint
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.remoting.request_access import SIGNED_GET
from bolide.remoting.request_routes import Kind, RawRoute
from bolide.store.timer.timer_files import TimerFiles

CLEAN_INTERVAL_MS: Final = 30_000
LOOK_MS: Final = 50
CLOCK_STEP_MS: Final = 60_000


@final
class TimerService(Service):
    """The timer of one broker. Call `load` before the first tick."""

    def __init__(
        self,
        options: BrokerOptions,
        rules: TimerRules,
        writer: LogWriter,
        effects: Effects,
        files: TimerFiles,
        now: int,
        damaged: DamagedDelays,
        followed: FollowedTimer | None = None,
    ) -> None:
        """`followed`: progress of a former master of this broker."""
        store = writer.store
        self.metrics = TimerMetrics(now)
        self._options = options.delay
        self._store = store
        self._effects = effects
        self._files = files
        self._precision = rules.precision
        self._followed = followed if followed is not None else FollowedTimer(effects)
        self._delivery = Delivery(writer, self.metrics, rules.precision, effects, self, damaged)
        self._loads = ColdLoads(store, effects, lambda now: effects.wake(self))
        self._cursor = QueueCursor(store, TIMER_TOPIC, 0, self._loads)
        self._enqueue = TimerEnqueue(options, self._cursor, files, self._delivery, self.metrics, rules.precision)
        self._flush = TimerFlush(
            options.delay.timer_flush_interval_ms, store, files, self.metrics, self._followed, effects, now
        )
        self._on = options.delay.timer_wheel_enable and writer.role.may_deliver
        self._opened = False
        self._write_time = 0
        self._run: SlotRun | None = None
        self._next_clean = now + CLEAN_INTERVAL_MS
        store.closing.append(self.close)

    # -- start and end

    def load(self, now: int) -> None:
        """Resume at the checkpoint, or start over if the files are unusable."""
        if not self._on:
            return
        self._opened = True
        files = self._files
        if not self._followed.known:
            self.metrics.load(self._store.files, self._store.root)
        found = files.load(self._queue_offset_of)
        self._write_time = files.checkpoint.read_time
        self._move_write_time(int(self._store.times.wall(now)))
        if self._followed.known:
            self.metrics.follow({})  # counted as they enter the wheel
            self._start_over(self._followed.read_time, self._followed.queue_offset)
        elif files.lost:
            self._store.maintenance.problem = f"{files.lost}: every message of the timer is enqueued again"
            self._start_over(files.checkpoint.read_time, found)
        else:
            if self._cursor.move_to(found) < found:
                # Before any record is stored, because the next start would skip messages that get these offsets now.
                files.set_back(self.queue_offset)

    def role_changed(self, role: Role, now: int) -> None:
        """Stop the timer on a slave, or continue from its files or from a former master's later progress."""
        on = self._options.timer_wheel_enable and role.may_deliver
        if on == self._on:
            return
        self._files.close()
        self._files = self._files.again()
        self._delivery.forget()
        self._run = None
        self._enqueue.reset(self._files)
        self._flush.reset(self._files)
        self._on = on
        self.load(now)

    def close(self, now: int) -> None:
        """Called when the store closes, after a sync of its log: sync the files and write an exact checkpoint."""
        if not self._opened:
            return
        try:
            if self._on and self._unsynced() and not (self._flush.syncing is not None or self._not_true()):
                if self._store.flushed_offset >= self._store.end_offset:
                    self._files.sync_job(self._checkpoint(now), self.metrics.take()).run()
        finally:
            self._on = False
            self._files.close()

    def _queue_offset_of(self, physical_offset: int, size: int) -> int:
        record = self._store.record_at(physical_offset, size)
        return -1 if record is None or record.topic != TIMER_TOPIC else int(record.queue_offset)

    def _start_over(self, read_time: int, queue_offset: int) -> None:
        """Discard an unusable wheel: add every message of the queue again unless it was due before `read_time`."""
        self._files.reset()
        self._run = None
        self._enqueue.start_over(read_time, queue_offset)

    # -- used by other services

    @property
    def queue_offset(self) -> int:
        """Messages of the timer queue before this one wait in the wheel, or are delivered."""
        return self._cursor.offset

    @queue_offset.setter
    def queue_offset(self, value: int) -> None:
        self._cursor.offset = value

    def behind(self, now: int) -> tuple[int, int, int]:
        """Return (delivery lag in ms, messages not in the wheel yet, messages in the wheel), for runtime info."""
        first = self._files.wheel.first_time() if self._on else -1
        late = max(int(self._store.times.wall(now)) - first - self._precision, 0) if first >= 0 else 0
        return late, self.not_in_wheel, self.in_wheel

    @property
    def in_wheel(self) -> int:
        """Number of messages in the wheel."""
        return self._files.wheel.count

    @property
    def not_in_wheel(self) -> int:
        """Number of timer messages that are not in the wheel yet."""
        return max(self._cursor.end - self.queue_offset, 0) if self._on else 0

    def routes(self) -> Routes:
        return [
            RawRoute(codes.GET_TIMER_CHECK_POINT, None, self.on_checkpoint, Kind.READ, access=SIGNED_GET),
            RawRoute(codes.GET_TIMER_METRICS, None, self.on_metrics, Kind.READ, access=SIGNED_GET),
        ]

    def on_checkpoint(self, channel: Channel, command: Command, now: int) -> Outcome:
        if not self._options.timer_wheel_enable:
            return reply(make_response(command, codes.SYSTEM_ERROR, "The checkpoint is null"))
        if not self._on or self._delivery.sends_away:
            return reply(make_response(command, codes.SUCCESS, body=self._followed.checkpoint.encode_body()))
        told = self._files.checkpoint if self._not_true() else self._checkpoint(now)
        return reply(make_response(command, codes.SUCCESS, body=told.encode_body()))

    def on_metrics(self, channel: Channel, command: Command, now: int) -> Outcome:
        if not self._options.timer_wheel_enable:
            return reply(make_response(command, codes.SYSTEM_ERROR, "The timer message store is null"))
        return reply(make_response(command, codes.SUCCESS, body=self.metrics.encode()))

    # -- the clock

    def due(self, now: int) -> int | None:
        if not self._on:
            return None
        at = self._delivery.away.next_at(self._next_clean)
        if self._flush.waits_for_log:
            at = min(at, now + LOOK_MS)
        elif not self._not_true() and self._unsynced():
            at = min(at, self._flush.next_sync)
        if self._loads.active:
            return at
        if self._backlog() or self._delivery.again:
            at = min(at, max(now, self._delivery.retry_at))
        if not self._options.timer_stop_dequeue:
            first = self._run.time if self._run is not None else self._files.wheel.first_time()
            if first >= 0:
                due = int(self._store.times.steady(first + self._precision))
                at = min(at, max(due, self._delivery.retry_at))
        return at

    def tick(self, now: int, budget: int) -> None:
        """Add new messages, deliver due ones, at most `budget` messages in total, and maintain the files."""
        self._move_write_time(int(self._store.times.wall(now)))
        self._delivery.begin(now)
        if not self._loads.active and now >= self._delivery.retry_at and self._store_keeps_up(now):
            left = min(budget, UNITS_AT_ONCE)
            if self._delivery.again:
                left -= self._delivery.go_back(now, left)
            if self._backlog() and not self._delivery.again:
                first = self._files.wheel.first_time()
                late = 0 <= first < self._write_time
                running = self._run.time if self._run is not None else -1
                read = self._enqueue.enqueue(now, max(left // 2, 1) if late else left, self._write_time, running)
                left = left - read if read or not self._cursor.loading else 0
            if left > 0 and not (self._options.timer_stop_dequeue or self._delivery.again):
                self._dequeue(now, left)
            self._loads.begin()
        if now >= self._next_clean:
            self._next_clean = now + CLEAN_INTERVAL_MS
            self._files.log.delete_before(int(self._store.min_physical_offset()))
        self._keep(now)

    def _move_write_time(self, wall: int) -> None:
        """Advance the write time with the clock. If the clock was set back a little, keep the write time, because
        earlier slots may have ended. If it was set back further, it was wrong before: follow it, although a restart may
        then repeat deliveries."""
        current = floor_time(wall, self._precision)
        if current > self._write_time or self._write_time - current > CLOCK_STEP_MS:
            self._write_time = current

    def _store_keeps_up(self, now: int) -> bool:
        """Return whether delivery may continue, because only a few bytes wait for the disk."""
        if self._store.written_offset - self._store.confirm_offset <= MAX_UNCONFIRMED:
            return True
        self._delivery.retry_at = now + LOOK_MS
        return False

    def _backlog(self) -> bool:
        if self._options.timer_stop_enqueue or self._cursor.end <= self.queue_offset:
            return False
        # A ring contains two rounds. Messages overdue by one round leave it before new ones enter.
        first = self._files.wheel.first_time()
        return first < 0 or first > self._write_time - self._files.wheel.round_slots * self._precision

    # -- out of the wheel

    def _dequeue(self, now: int, budget: int) -> None:
        left = budget
        while left > 0:
            run = self._run
            if run is None:
                first = self._files.wheel.first_time()
                if first < 0 or first >= self._write_time:
                    return
                slot, keys = self._files.wheel.slots[first], self._enqueue.delete_keys
                run = SlotRun(first, int(slot.last), self._store, self._files.log, self._delivery, keys)
                self._run = run
            left -= run.go_on(now, left)
            if run.state == OVER:
                self._over(run)
            elif run.state == DAMAGED:
                # The wheel points to an invalid unit. Rebuild it from the queue of the timer topic.
                where = self._files.log.segments.folder
                self._store.maintenance.problem = f"{where} is damaged: every message of the timer is enqueued again"
                self._start_over(run.time, self.queue_offset)
                return
            elif run.state == COLD:
                for extent in run.extents:
                    self._loads.want(extent)
                return
            elif run.state == REFUSED:
                return

    def _over(self, run: SlotRun) -> None:
        """Finish a slot, so that the next start begins after it."""
        for properties in run.deleted_nothing():
            # it was counted as if its message existed
            self.metrics.add(properties.get(names.REAL_TOPIC), 1, self._write_time)
        self._files.wheel.drop(run.time)
        self._flush.done_to = run.time + self._precision
        self._run = None

    # -- the files

    def _checkpoint(self, now: int) -> TimerCheckpoint:
        """Return the checkpoint of the current state. `read_time` is the first occupied slot, or the write time if that
        is earlier or the wheel is empty."""
        first = self._run.time if self._run is not None else self._files.wheel.first_time()
        read_time = self._write_time if first < 0 else min(first, self._write_time)
        last = self._files.checkpoint
        return TimerCheckpoint(
            read_time, self._files.log.end, self.queue_offset, 0, now, last.counter + 1, self._precision
        )

    def _not_true(self) -> bool:
        """Return whether no checkpoint may describe the current wheel and queue offset."""
        return self._flush.failed or self._enqueue.rebuilding or self._delivery.open

    def _keep(self, now: int) -> None:
        """Record a checkpoint every timerFlushIntervalMs, and sync it once the commit log is synced up to it."""
        if self._not_true():
            return
        if self._flush.is_due(now) and self._unsynced():
            self._flush.note(self._checkpoint(now))
        self._flush.go_on(now)

    def _unsynced(self) -> bool:
        return self._flush.unsynced(self.queue_offset)
