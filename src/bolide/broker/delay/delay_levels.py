"""Delivers delayed messages from SCHEDULE_TOPIC_XXXX to their topics when they are due.

Queue N of the schedule topic contains level N+1. Its units contain the delivery time instead of a tags hash, so a level
is a queue sorted by time, and its first unit shows whether a message is due (RocketMQ's ScheduleMessageService,
docs/protocol/behaviour.md 2.3). Progress is stored in config/delayOffset.json.

Delivery is at least once: the file contains only progress that is on disk and confirmed, and progress moves back when a
failed write discards deliveries. A crash between a delivery and the file repeats the delivery. A file ahead of the log
would lose messages.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from bolide.broker.append.log_writer import LogWriter
from bolide.broker.core.away import Journeys
from bolide.broker.core.channel import Channel
from bolide.broker.core.effects import Effects
from bolide.broker.core.names import NO_SEND_TOPICS
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.role import Role
from bolide.broker.core.service import Routes, Table
from bolide.broker.delay.damaged_delays import PERSIST_NAME, DamagedDelays
from bolide.broker.delay.delay_level import Level
from bolide.broker.delay.delay_progress import DelayProgress
from bolide.broker.refused import response_code
from bolide.errors import BolideError
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.message_properties import stored_properties
from bolide.layout.names import SCHEDULE_TOPIC
from bolide.layout.properties import property_value
from bolide.layout.property_names import REAL_QID, REAL_TOPIC
from bolide.layout.queue_unit import UNIT_SIZE
from bolide.layout.record import Record, copy_of
from bolide.remoting import codes
from bolide.remoting.codes import MESSAGE_ILLEGAL
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.decode import java_int
from bolide.remoting.request_access import SIGNED_GET
from bolide.remoting.request_routes import Kind, RawRoute
from bolide.store.disk.extents import Extent
from bolide.store.errors import RecordDamaged
from bolide.store.message_store import MessageStore
from bolide.store.queues.consume_queue import ConsumeQueue
from bolide.store.reading.record_runs import RecordRuns

CHECK_INTERVAL_MS: Final = 100
RETRY_MS: Final = 1_000
"""Pause after a failed write of deliveries."""
PERSIST_INTERVAL_MS: Final = 10_000
UNITS_AT_ONCE: Final = 256
"""Deliveries of one turn: a few milliseconds, so that the loop can serve others. The next turn continues."""
BYTES_AT_ONCE: Final = 4 * 1024 * 1024
MAX_UNCONFIRMED: Final = 32 * 1024 * 1024
"""Bytes of the log that may wait for the disk before delivery pauses."""


def due_message(record: Record, writer: LogWriter) -> BrokerMessage | None:
    """Return the message of a record of the schedule topic, or None if no producer could have sent it.

    The stored string keeps DELAY, REAL_TOPIC and REAL_QID, as in Java; only the level has no further effect.
    """
    topic = property_value(record.properties, REAL_TOPIC) or ""
    queue_id = java_int(property_value(record.properties, REAL_QID) or "0", 31)
    if queue_id is None or not writer.takes(topic, queue_id) or topic in NO_SEND_TOPICS:
        where = f"the delayed message at offset {record.physical_offset} of the log"
        writer.store.maintenance.problem = f"{where} names no queue it could go to: it is left out"
        return None
    return copy_of(record, topic, queue_id, stored_properties(record.properties))


@final
class DelayService(Table):
    """Delivers each level, starting at its stored offset. `levels_ms`: delays of messageDelayLevel."""

    def __init__(
        self,
        levels_ms: tuple[int, ...],
        writer: LogWriter,
        effects: Effects,
        start: int,
        persist_interval_ms: int = PERSIST_INTERVAL_MS,
    ) -> None:
        super().__init__(PERSIST_NAME)
        self._persist_interval_ms: int = persist_interval_ms
        self._store: MessageStore = writer.store
        self._writer: LogWriter = writer
        self.role: Role = writer.role
        self._effects: Effects = effects
        self.damaged: DamagedDelays = DamagedDelays(writer.store, writer.role, effects)
        """The damaged messages of all delay levels and of the timer, a separate service."""
        self.damaged.deliver[SCHEDULE_TOPIC] = self._deliver_late
        self._progress: DelayProgress = DelayProgress(levels_ms, self.damaged, start)
        self._levels: list[Level] = self._progress.levels
        self._away: list[Journeys] = [Journeys(effects, self) for _ in levels_ms]
        """In-flight messages of each level to other broker sets, on an acting slave."""
        self._sent_away: bool = False
        self._runs: RecordRuns = RecordRuns(writer.store.log)
        self._next_check: int = start + 1_000
        self._next_persist: int = start + persist_interval_ms
        self._first: int = 0
        """Index of the level to deliver first in the next turn, so that a long level does not delay the others."""
        self._now: int = start
        self._not_before: int = 0
        self._cold: list[Extent] = []
        self._reading: bool = False
        self.failures: int = 0
        writer.store.on_taken_back.append(self.taken_back)

    def routes(self) -> Routes:
        return [RawRoute(codes.GET_ALL_DELAY_OFFSET, None, self.on_all, Kind.READ, access=SIGNED_GET)]

    def on_all(self, channel: Channel, command: Command, now: int) -> Outcome:
        return reply(make_response(command, codes.SUCCESS, body=self.encode()))

    # -- progress

    def encode(self) -> bytes:
        """config/delayOffset.json; also the body of GET_ALL_DELAY_OFFSET (45)."""
        self._advance()
        return self._progress.encode()

    def begin(self) -> None:
        self.damaged.begin()

    def written(self) -> None:
        self.damaged.written()

    def load(self, data: bytes) -> None:
        """Load a delayOffset.json written by Java or Bolide."""
        self._progress.load(data)

    def follow(self, data: bytes) -> None:
        """Adopt a master's progress, which the log of this broker covers."""
        before = self._progress.persisted.copy()
        if self._progress.load(data) or before != self._progress.persisted:
            self._effects.persist(self.persist_name)

    def take_back(self, data: bytes) -> None:
        """On a returning master: adopt the progress of an acting slave (45). Progress never moves back."""
        self._progress.take_back(data, self._end_of)

    def role_changed(self, role: Role, now: int) -> None:
        """A slave has its master's progress; a new master continues there."""
        if self._sent_away:
            self._advance_away()
        self._sent_away = role.sends_away
        for level, away in zip(self._levels, self._away, strict=True):
            away.forget()
            level.offset = level.confirmed
            level.fresh = []
            level.waiting.clear()
        self._next_check = now

    def cut(self, now: int) -> bool:
        """Clamp the offset of each level to the end of its queue. Return whether any changed. The caller must then
        persist them before the next append, or a later start skips messages that reuse these offsets."""
        lost = self.damaged.cut(int(self._store.end_offset))
        return self._progress.cut(self._end_of, now) or lost

    def _end_of(self, index: int) -> int:
        return int(self._store.max_queue_offset(SCHEDULE_TOPIC, index))

    def _advance(self) -> None:
        """Limit the persisted progress to synced records, whatever the flush mode confirms: the file itself is
        synced."""
        if self.role.sends_away:
            self._advance_away()
            return
        safe = int(min(self._store.confirm_offset, self._store.flushed_offset))
        for level in self._levels:
            level.advance(safe)

    def _advance_away(self) -> None:
        """Messages that other sets have are safe."""
        for level, away in zip(self._levels, self._away, strict=True):
            level.confirmed = away.first(level.offset)

    def taken_back(self, written_offset: int) -> None:
        """Called after a failed write: redeliver its messages after a pause."""
        gone = False
        for level in self._levels:
            gone = level.taken_back(written_offset) or gone
        if gone:
            self.failures += 1
            self._next_check = self._not_before = self._now + RETRY_MS

    # -- delivery

    def due(self, now: int) -> int | None:
        """Return the next tick, or None if no message is pending and the file is current. An arrival re-evaluates
        it."""
        return self._next_check if self.role.may_deliver and self._works() else None

    def _works(self) -> bool:
        for level, persisted in zip(self._levels, self._progress.persisted, strict=True):
            if level.offset != persisted or level.loading:
                return True
            queue = self._store.queues.get(SCHEDULE_TOPIC, level.level - 1)
            if level.offset != (0 if queue is None else int(queue.max_offset)):
                return True
        return False

    def tick(self, now: int, budget: int) -> None:
        """Deliver due messages within the limits of a turn. Check again after 100 ms, or immediately if more are
        due."""
        self._now = now
        if not self.role.may_deliver:
            return
        for away in self._away:
            away.go_on(now)
        written = int(self._store.written_offset)
        for level in self._levels:
            level.written(written)
        if now >= self._not_before or self._not_before - now > RETRY_MS:
            self._next_check = now + CHECK_INTERVAL_MS
            if self._store.written_offset - self._store.confirm_offset <= MAX_UNCONFIRMED:
                self._deliver_all(now, min(budget, UNITS_AT_ONCE))
        if now >= self._next_persist:
            self._next_persist = now + self._persist_interval_ms
            self._advance()
            if self._progress.changed(now):
                self._effects.persist(self.persist_name)

    def behind(self) -> dict[int, tuple[int, int]]:
        """By level: delivered offset and end of its queue, for runtime info."""
        return {
            level.level: (level.offset, int(self._store.max_queue_offset(SCHEDULE_TOPIC, level.level - 1)))
            for level in self._levels
        }

    def _deliver_all(self, now: int, budget: int) -> None:
        """Deliver all levels in turn, starting after the level where the last turn ended."""
        left = budget
        more = False
        count = len(self._levels)
        first = self._first
        for step in range(count):
            if left <= 0:
                self._first = (first + step) % count
                more = True
                break
            level = self._levels[(first + step) % count]
            left -= self._deliver(level, now, left)
            more = more or level.more
        self._runs.close()
        if self._cold:
            self._reading = True
            self._effects.load(self._cold, self._loaded)
            self._cold = []
        if more:
            self._next_check = now

    def _deliver(self, level: Level, now: int, budget: int) -> int:
        """Deliver due messages of one level. Return the number of processed units."""
        level.more = False
        queue_id = level.level - 1
        queue = self._store.queues.get(SCHEDULE_TOPIC, queue_id)
        end = 0 if queue is None else int(queue.max_offset)
        if queue is None or level.offset >= end or level.loading:
            if level.offset > end:
                level.shrunk(end)
            return 0
        level.offset = max(level.offset, int(queue.min_offset))
        units = queue.units(level.offset, budget, level.loaded)
        if units is None:
            self._load(level, queue.extent(level.offset, UNITS_AT_ONCE))
            return 0
        places = self._due(level, queue, units, end, now)
        done = 0
        for physical_offset, size in places:
            if not self._runs.bring(places, done, level.loaded and done == 0):  # data was loaded for the first one
                assert self._runs.cold is not None
                self._load(level, self._runs.cold)
                return done
            try:
                record = self._runs.intact(physical_offset, size)
            except RecordDamaged as error:  # a copy would get a CRC that matches the damaged body
                self.failures += 1
                if not self.damaged.add(physical_offset, size, str(error), now):
                    level.more = False
                    return done
                record = None
            if record is not None and not self._put(level, record, now):
                level.more = False
                return done
            level.offset += 1
            done += 1
        level.loaded = False
        if done and done == len(units) // UNIT_SIZE and level.offset < end:
            level.more = True  # the budget is used up, or a queue file ends
        return done

    def _due(self, level: Level, queue: ConsumeQueue, units: bytes, end: int, now: int) -> list[tuple[int, int]]:
        """Return (physical offset, size) of due messages, from the first unit on, within the byte limit of a turn."""
        places: list[tuple[int, int]] = []
        at: i64 = 0
        total: i64 = 0
        while at + UNIT_SIZE <= len(units):
            physical_offset = read_i64_be(units, at)
            size: i64 = i64(read_i32_be(units, at + 8))
            deliver_time = self._store.tags_code(SCHEDULE_TOPIC, level.level - 1, read_i64_be(units, at + 12))
            if deliver_time < 0:  # its extension unit is lost, but the record has the time
                record = self._store.record_at(physical_offset, size)
                deliver_time = 0 if record is None else record.store_timestamp + level.delay_ms
            deliver_time = int(self._store.times.steady(deliver_time, physical_offset))
            if level.due_at(deliver_time, level.offset + at // UNIT_SIZE, end, now) > now:
                break
            total += size
            if total > BYTES_AT_ONCE and places:
                level.more = True
                break
            places.append((int(physical_offset), int(size)))
            at += UNIT_SIZE
        return places

    def _load(self, level: Level, extent: Extent) -> None:
        """Load missing data in the pool; the level then continues. One load at a time."""
        if not self._reading:
            level.loading = True
            self._cold.append(extent)

    def _loaded(self, now: int) -> None:
        self._reading = False
        for level in self._levels:
            if level.loading:
                level.loading = False
                level.loaded = True
        self._next_check = min(self._next_check, now)
        self._effects.wake(self)

    def _put(self, level: Level, record: Record, now: int) -> bool:
        """Store the record under its own topic. Return False to retry the record at the next tick."""
        try:
            message = due_message(record, self._writer)
            if message is None:
                return True
            if self.role.sends_away:
                return self._send_away(level, message)
            appended = self._writer.put(message, now)
        except BolideError as error:
            if response_code(error) == MESSAGE_ILLEGAL:  # a retry does not help
                self._waits(level, error)
            else:
                self.failures += 1
            return False
        level.fresh.append((appended.end_offset, level.offset + 1))
        return True

    def _deliver_late(self, record: Record, now: int) -> int:
        """Deliver a record that was damaged before (`DamagedDelays.deliver`)."""
        message = due_message(record, self._writer)
        return 0 if message is None else int(self._writer.put(message, now).end_offset)

    def _waits(self, level: Level, error: BolideError) -> None:
        """Report that a level cannot deliver its next message and retries it at each tick."""
        self.failures += 1
        self._store.maintenance.problem = f"delay level {level.level} waits for a message it cannot deliver: {error}"

    def _send_away(self, level: Level, message: BrokerMessage) -> bool:
        """Send the message to another set. Return False if the limit of its level is reached."""
        away = self._away[level.level - 1]
        if away.full:
            return False
        away.begin(message, level.offset)
        return True
