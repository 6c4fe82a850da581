"""Delivery of messages delayed to any time: from the timer topic into the wheel, out of it when their time has come.

RocketMQ's TimerMessageStore. A message beyond the window waits on the way: when its slot is due it goes back to the
timer topic (a roll). A delete waits in the slot of what it deletes. At least once: the checkpoint never says more
than the commit log holds on disk, so a crash delivers again what was delivered since the last one, a second or two ago.
Deliveries that a failed write took back are delivered first, and no checkpoint is noted before that.
"""

from __future__ import annotations

from typing import Any, Final, final

from librt.strings import read_i32_be, read_i64_be

from bolide.broker.append.log_writer import LogWriter
from bolide.broker.append.timer_rules import TimerRules, java_long
from bolide.broker.core.channel import Channel
from bolide.broker.core.effects import Effects
from bolide.broker.core.options import BrokerOptions
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.role import Role
from bolide.broker.core.service import Routes, Service
from bolide.broker.delay.followed_timer import FollowedTimer
from bolide.broker.delay.recall import delete_key
from bolide.broker.delay.timer_delivery import NEVER_WAITED, Delivery, Entry
from bolide.broker.delay.timer_metrics import TimerMetrics
from bolide.broker.delay.timer_slot import BYTES_AT_ONCE, COLD, DAMAGED, OVER, REFUSED, SlotRun
from bolide.layout import property_names as names
from bolide.layout.hashes import java_hash
from bolide.layout.message_properties import MessageProperties, stored_properties
from bolide.layout.names import TIMER_TOPIC
from bolide.layout.queue_unit import UNIT_SIZE
from bolide.layout.timer import MAGIC_DEFAULT, MAGIC_DELETE, MAGIC_ROLL, floor_time, roll_window, rolled_time
from bolide.layout.timer_checkpoint import TimerCheckpoint
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.remoting.request_access import SIGNED_GET
from bolide.remoting.request_routes import Kind, RawRoute
from bolide.store.disk.extents import Extent
from bolide.store.disk.jobs import SyncTimer
from bolide.store.message_store import MessageStore
from bolide.store.reading.record_runs import RecordRuns
from bolide.store.timer.timer_files import TimerFiles, Wish

UNITS_AT_ONCE: Final = 256
"""Messages of one tick: some ten milliseconds at most, for the loop has others to serve."""
MAX_UNCONFIRMED: Final = 32 * 1024 * 1024
"""Bytes of the log that may wait for the disk before the timer waits for it, too."""
CLEAN_INTERVAL_MS: Final = 30_000
METRICS_INTERVAL_MS: Final = 10_000
LOOK_MS: Final = 50
CLOCK_STEP_MS: Final = 60_000


@final
class TimerService(Service):
    """The timer of one broker. `load` comes before the first tick."""

    def __init__(
        self,
        options: BrokerOptions,
        rules: TimerRules,
        store: MessageStore,
        writer: LogWriter,
        effects: Effects,
        files: TimerFiles,
        now: int,
        followed: FollowedTimer | None = None,
    ) -> None:
        """`followed` is what this broker knows of a master that it followed."""
        self.metrics = TimerMetrics(now)
        self.queue_offset = 0
        """Messages of the timer queue before this one wait in the wheel, or are delivered."""
        self._options = options
        self._store = store
        self._effects = effects
        self._files = files
        self._precision = rules.precision
        self._followed = followed if followed is not None else FollowedTimer(effects)
        self._delivery = Delivery(writer, self.metrics, rules.precision, effects, self)
        self._window = roll_window(options.timer_roll_window_slot, files.wheel.round_slots)
        self._on = options.timer_wheel_enable and writer.role.may_deliver
        self._opened = False
        self._write_time = 0
        self._run: SlotRun | None = None
        self._loading = False
        self._loaded_once = False
        """True when the pool has just loaded what was not in memory; what was evicted since is waited for."""
        self._runs = RecordRuns(store.log)
        self._done_to = 0
        """End of the last slot that is over: the checkpoint on disk should get there."""
        self._next_sync = now + options.timer_flush_interval_ms
        self._next_metrics = now + METRICS_INTERVAL_MS
        self._next_clean = now + CLEAN_INTERVAL_MS
        self._noted: tuple[int, TimerCheckpoint] | None = None
        self._syncing: SyncTimer | None = None
        self._sync_failed = False
        self._rebuild_to = 0
        self._rebuild_from = 0
        self._rolled: set[tuple[str, int]] = set()
        store.on_taken_back.append(self.taken_back)
        store.closing.append(self.close)

    # -- start and end

    def load(self, now: int) -> None:
        """Resume where the checkpoint says, or start over if the files are unusable."""
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
            self.queue_offset = found
            self._clamp()
            if self.queue_offset < found:
                # Before anything is stored: the next start would pass over messages that get these offsets now.
                files.set_back(self.queue_offset)

    def role_changed(self, role: Role, now: int) -> None:
        """A slave's timer stands still. One that starts again goes by its files, or by what a master told since."""
        on = self._options.timer_wheel_enable and role.may_deliver
        if on == self._on:
            return
        self._files.close()
        self._files = self._files.again()
        self._delivery.forget()
        self._run = self._noted = self._syncing = None
        self._sync_failed = False
        self._rebuild_to = self.queue_offset = 0
        self._rolled.clear()
        self._on = on
        self.load(now)

    def close(self, now: int) -> None:
        """The store's log is synced and closes: make the files safe and the checkpoint exact."""
        if not self._opened:
            return
        try:
            if self._on and self._unsynced() and not (self._syncing is not None or self._not_true()):
                if self._store.flushed_offset >= self._store.end_offset:
                    self._files.sync_job(self._checkpoint(now), self.metrics.take()).run()
        finally:
            self._on = False
            self._files.close()

    def _queue_offset_of(self, physical_offset: int, size: int) -> int:
        record = self._store.record_at(physical_offset, size)
        return -1 if record is None or record.topic != TIMER_TOPIC else int(record.queue_offset)

    def _start_over(self, read_time: int, queue_offset: int) -> None:
        """The wheel is no use: let every message of the queue enter it again that is not due before `read_time`.

        A message that rolled is in the queue once more; only its newest copy counts.
        """
        self._files.reset()
        self._run = None
        self.queue_offset = 0
        self._clamp()
        self._rebuild_from = read_time
        self._rebuild_to = queue_offset if queue_offset > self.queue_offset else 0
        at = self.queue_offset
        while at < self._rebuild_to:
            units = self._store.units(TIMER_TOPIC, 0, at, UNITS_AT_ONCE)
            if not units:
                break
            for physical_offset, size, _ in units:
                record = self._store.record_at(physical_offset, size)
                if record is not None:
                    self._note_roll(stored_properties(record.properties))
            at += len(units)

    def _note_roll(self, properties: MessageProperties) -> None:
        times = java_long(properties.get(names.TIMER_ROLL_TIMES) or "")
        if times:
            self._rolled.add((properties.get(names.UNIQ_KEY) or "", times))

    def _clamp(self) -> None:
        low = int(self._store.min_queue_offset(TIMER_TOPIC, 0))
        high = int(self._store.max_queue_offset(TIMER_TOPIC, 0))
        self.queue_offset = min(max(self.queue_offset, low), high)

    # -- what others ask

    def behind(self, now: int) -> tuple[int, int, int]:
        """(ms the delivery is late, messages not in the wheel yet, messages that wait), for runtime info."""
        first = self._files.wheel.first_time() if self._on else -1
        late = max(int(self._store.times.wall(now)) - first - self._precision, 0) if first >= 0 else 0
        return late, self.not_in_wheel, self.in_wheel

    @property
    def in_wheel(self) -> int:
        """Messages that wait for their time."""
        return self._files.wheel.count

    @property
    def not_in_wheel(self) -> int:
        """Timed messages that are not in the wheel yet."""
        return max(int(self._store.max_queue_offset(TIMER_TOPIC, 0)) - self.queue_offset, 0) if self._on else 0

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
        if self._noted is not None:
            at = min(at, now + LOOK_MS)
        elif not self._not_true() and self._unsynced():
            at = min(at, self._next_sync)
        if self._loading:
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
        """Enqueue what came, deliver what is due, at most `budget` messages in all, and keep the files."""
        self._move_write_time(int(self._store.times.wall(now)))
        self._delivery.begin(now)
        if not self._loading and now >= self._delivery.retry_at and self._store_keeps_up(now):
            left = min(budget, UNITS_AT_ONCE)
            if self._delivery.again:
                left -= self._delivery.go_back(now, left)
            if self._backlog() and not self._delivery.again:
                first = self._files.wheel.first_time()
                late = 0 <= first < self._write_time
                left -= self._enqueue(now, max(left // 2, 1) if late else left)
            if left > 0 and not (self._options.timer_stop_dequeue or self._delivery.again or self._loading):
                self._dequeue(now, left)
            self._runs.close()
        if now >= self._next_clean:
            self._next_clean = now + CLEAN_INTERVAL_MS
            self._files.log.delete_before(int(self._store.min_physical_offset()))
        self._keep(now)

    def _move_write_time(self, wall: int) -> None:
        """Follow the clock. If it goes back a little, wait for it, because slots up to here may be over. If it was far
        ahead, it was wrong, and deliveries do not wait for it: they may be repeated after a restart."""
        current = floor_time(wall, self._precision)
        if current > self._write_time or self._write_time - current > CLOCK_STEP_MS:
            self._write_time = current

    def _store_keeps_up(self, now: int) -> bool:
        """False while so much waits for the disk that delivery must wait as well."""
        if self._store.written_offset - self._store.confirm_offset <= MAX_UNCONFIRMED:
            return True
        self._delivery.retry_at = now + LOOK_MS
        return False

    def _backlog(self) -> bool:
        if self._options.timer_stop_enqueue or self._store.max_queue_offset(TIMER_TOPIC, 0) <= self.queue_offset:
            return False
        # A ring holds two rounds: what has been due for one of them leaves it before anything new comes in.
        first = self._files.wheel.first_time()
        return first < 0 or first > self._write_time - self._files.wheel.round_slots * self._precision

    # -- into the wheel

    def _enqueue(self, now: int, budget: int) -> int:
        """Take up to `budget` messages of the queue into the wheel; what is due already is delivered at once."""
        entries = self._entries(budget)
        current = floor_time(int(self._store.times.wall(now)), self._precision)
        gone = {(e.properties.get(names.TIMER_DEL_UNIQKEY), e.out) for e in entries if e.deletes and e.out < current}
        wishes: list[tuple[Wish, MessageProperties]] = []
        passed = 0
        for entry in entries:
            if entry.record is None or self._was_done(entry, self.queue_offset + passed):
                passed += 1  # not in the log any more; no timer message; or a rebuild meets it after its delivery
                continue
            if entry.out < current and not self._meets_its_slot(entry):
                passed = self._settle(wishes, passed)
                if (self._key_of(entry.properties), entry.out) not in gone:
                    if not self._delivery.deliver(entry.record, entry.properties, NEVER_WAITED, now):
                        return len(entries)
                self.queue_offset += 1  # at once: what follows may fail, and this is delivered
                continue
            wishes.append((self._wish(entry), entry.properties))
            passed += 1
        self._settle(wishes, passed)
        if self._rebuild_to and self.queue_offset >= self._rebuild_to:
            self._rebuild_to = 0
            self._rolled.clear()
        return len(entries)

    def _entries(self, budget: int) -> list[Entry]:
        """The next units of the queue that are in memory; when none is, the pool reads them."""
        queue = self._store.queues.get(TIMER_TOPIC, 0)
        if queue is None:
            return []
        self.queue_offset = max(self.queue_offset, int(queue.min_offset))
        units = queue.units(self.queue_offset, budget, self._loaded_once)
        if units is None:
            self._load([queue.extent(self.queue_offset, UNITS_AT_ONCE)])
            return []
        places: list[tuple[int, int]] = []
        total = 0
        for at in range(0, len(units) - UNIT_SIZE + 1, UNIT_SIZE):
            size = int(read_i32_be(units, at + 8))
            total += size
            if total > BYTES_AT_ONCE and places:
                break
            places.append((int(read_i64_be(units, at)), size))
        entries: list[Entry] = []
        for index, (physical_offset, size) in enumerate(places):
            if not self._runs.bring(places, index, self._loaded_once and index == 0):  # it was loaded for the first
                if not entries and self._runs.cold is not None:
                    self._load([self._runs.cold])
                return entries
            entries.append(self._entry(physical_offset, size))
        self._loaded_once = False
        return entries

    def _entry(self, physical_offset: int, size: int) -> Entry:
        record = self._runs.record(physical_offset, size)
        properties = stored_properties(b"" if record is None else record.properties)
        out = java_long(properties.get(names.TIMER_OUT_MS) or "")
        return Entry(physical_offset, size, None if out is None else record, properties, out or 0)

    def _key_of(self, properties: MessageProperties) -> str:
        """How a delete names the message with these properties."""
        with_topic = self._options.append_topic_for_timer_delete_key
        topic = properties.get(names.REAL_TOPIC) or ""
        return delete_key(topic, properties.get(names.UNIQ_KEY) or "", with_topic)

    def _meets_its_slot(self, entry: Entry) -> bool:
        """True for a late delete whose message is late, too, and waits in a slot nobody has begun to deliver."""
        running = self._run is not None and self._run.time == entry.out
        return entry.deletes and not running and self._files.wheel.get(entry.out) is not None

    def _settle(self, wishes: list[tuple[Wish, MessageProperties]], passed: int) -> int:
        """Let what was read so far wait; the queue offset moves over it. Raises `FileFailed`, with nothing moved."""
        if wishes:
            self._files.append([wish for wish, _ in wishes], self._write_time)
            for wish, properties in wishes:
                count = -1 if wish.magic & MAGIC_DELETE else 1
                self.metrics.add(properties.get(names.REAL_TOPIC), count, self._write_time)
            self.metrics.enqueued += len(wishes)
            wishes.clear()
        self.queue_offset += passed
        return 0

    def _wish(self, entry: Entry) -> Wish:
        # Never before the time written last: that slot may be over. It is later than `out` only if the clock went back,
        # or for a delete that meets its slot.
        out = entry.out if self._meets_its_slot(entry) else max(entry.out, self._write_time)
        time = int(rolled_time(out, self._write_time, self._window, self._precision))
        magic = MAGIC_DEFAULT
        if time != out:
            magic |= MAGIC_ROLL
        if entry.deletes:
            magic |= MAGIC_DELETE
        topic = entry.properties.get(names.REAL_TOPIC)
        topic_hash = 0 if topic is None else java_hash(topic)
        return Wish(floor_time(time, self._precision), magic, entry.physical_offset, entry.size, topic_hash)

    def _was_done(self, entry: Entry, queue_offset: int) -> bool:
        if queue_offset >= self._rebuild_to:
            return False
        if entry.out < self._rebuild_from:
            return True
        times = java_long(entry.properties.get(names.TIMER_ROLL_TIMES) or "0") or 0
        return (entry.properties.get(names.UNIQ_KEY) or "", times + 1) in self._rolled

    # -- out of the wheel

    def _dequeue(self, now: int, budget: int) -> None:
        left = budget
        while left > 0:
            run = self._run
            if run is None:
                first = self._files.wheel.first_time()
                if first < 0 or first >= self._write_time:
                    return
                slot = self._files.wheel.slots[first]
                with_topic = self._options.append_topic_for_timer_delete_key
                run = SlotRun(first, int(slot.last), self._store, self._files.log, self._delivery, with_topic)
                self._run = run
            left -= run.go_on(now, left)
            if run.state == OVER:
                self._over(run)
            elif run.state == DAMAGED:
                # A unit is not where the wheel says: the queue of the timer topic knows better.
                where = self._files.log.segments.folder
                self._store.maintenance.problem = f"{where} is damaged: every message of the timer is enqueued again"
                self._start_over(run.time, self.queue_offset)
                return
            elif run.state == COLD:
                self._load(run.extents)
                return
            elif run.state == REFUSED:
                return

    def _load(self, extents: list[Extent]) -> None:
        self._loading = True
        self._effects.load(extents, self._loaded)

    def _loaded(self, now: int) -> None:
        self._loading = False
        self._loaded_once = True
        self._effects.wake(self)

    def _over(self, run: SlotRun) -> None:
        """A slot is done: the next start begins after it."""
        for properties in run.deleted_nothing():
            self.metrics.add(properties.get(names.REAL_TOPIC), 1, self._write_time)  # it was counted as if it had
        self._files.wheel.drop(run.time)
        self._done_to = run.time + self._precision
        self._run = None

    # -- the files

    def _checkpoint(self, now: int) -> TimerCheckpoint:
        """What is true now. Slots before the first that waits are over; nothing enters one before the write time."""
        first = self._run.time if self._run is not None else self._files.wheel.first_time()
        read_time = self._write_time if first < 0 else min(first, self._write_time)
        last = self._files.checkpoint
        return TimerCheckpoint(
            read_time, self._files.log.end, self.queue_offset, 0, now, last.counter + 1, self._precision
        )

    def _not_true(self) -> bool:
        """True while no checkpoint may say what the wheel and the queue offset say now."""
        return self._sync_failed or self._rebuild_to > 0 or self._delivery.open

    def taken_back(self, written_offset: int) -> None:
        """A write failed. What that turn noted refers to records that are gone; other records may get their place."""
        if self._noted is not None and self._noted[0] > written_offset:
            self._noted = None

    def _unsynced(self) -> bool:
        last = self._files.checkpoint
        there = last.queue_offset == self.queue_offset and last.log_end == self._files.log.end
        return not there or last.read_time < self._done_to

    def _keep(self, now: int) -> None:
        """Every timerFlushIntervalMs note what is true, and sync it once the commit log is on disk up to there."""
        if self._not_true():
            return
        if self._noted is None and now >= self._next_sync and self._syncing is None:
            self._next_sync = now + self._options.timer_flush_interval_ms
            if self._unsynced():
                self._noted = (int(self._store.end_offset), self._checkpoint(now))
                self._store.flush_soon()
        if self._noted is not None and self._store.flushed_offset >= self._noted[0]:
            checkpoint = self._noted[1]
            self._noted = None
            metrics = None
            if now >= self._next_metrics:
                self._next_metrics = now + METRICS_INTERVAL_MS
                metrics = self.metrics.take()
            self._syncing = self._files.sync_job(checkpoint, metrics)
            self._effects.run(self._syncing, self._synced)

    def _synced(self, job: Any, error: str) -> None:
        done = self._syncing
        if done is None or job is not done:
            return  # of the timer before the role changed
        self._syncing = None
        if error:
            # What was not synced may be lost and never reported again: the checkpoint stays where it is.
            self._sync_failed = True
        else:
            self._files.checkpoint = done.checkpoint
            if self._followed.known:
                self._followed.clear()
