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

from bolide.broker.append.log_writer import LogWriter
from bolide.broker.core.away import Journeys
from bolide.broker.core.channel import Channel
from bolide.broker.core.effects import Effects
from bolide.broker.core.names import NO_SEND_TOPICS
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.role import Role
from bolide.broker.core.service import Routes, Table
from bolide.broker.cursor.cold_loads import ColdLoads
from bolide.broker.cursor.queue_cursor import MAX_UNCONFIRMED, UNITS_AT_ONCE
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
from bolide.layout.record import Record, copy_of
from bolide.remoting import codes
from bolide.remoting.codes import MESSAGE_ILLEGAL
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.decode import java_int
from bolide.remoting.request_access import SIGNED_GET
from bolide.remoting.request_routes import Kind, RawRoute
from bolide.store.errors import RecordDamaged
from bolide.store.message_store import MessageStore

CHECK_INTERVAL_MS: Final = 100
RETRY_MS: Final = 1_000
"""Pause after a failed write of deliveries."""
PERSIST_INTERVAL_MS: Final = 10_000


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
        self._loads: ColdLoads = ColdLoads(writer.store, effects, self._loaded)
        self._levels: list[Level] = [
            Level(index + 1, delay, writer.store, self._loads, Journeys(effects, self))
            for index, delay in enumerate(levels_ms)
        ]
        self._progress: DelayProgress = DelayProgress(self._levels, self.damaged, start)
        self._next_check: int = start + 1_000
        self._next_persist: int = start + persist_interval_ms
        self._first: int = 0
        """Index of the level to deliver first in the next turn, so that a long level does not delay the others."""
        self._now: int = start
        self._not_before: int = 0
        self.failures: int = 0
        writer.store.on_taken_back.append(self.taken_back)

    def routes(self) -> Routes:
        return [RawRoute(codes.GET_ALL_DELAY_OFFSET, None, self.on_all, Kind.READ, access=SIGNED_GET)]

    def on_all(self, channel: Channel, command: Command, now: int) -> Outcome:
        return reply(make_response(command, codes.SUCCESS, body=self.encode()))

    # -- progress

    def encode(self) -> bytes:
        """Encode config/delayOffset.json, which is also the body of GET_ALL_DELAY_OFFSET (45)."""
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
        """Adopt a master's progress, and persist it if it changed. The log of this broker must cover it."""
        before = self._progress.persisted.copy()
        if self._progress.load(data) or before != self._progress.persisted:
            self._effects.persist(self.persist_name)

    def take_back(self, data: bytes) -> None:
        """Called on a returning master: adopt the progress of an acting slave (45). Progress never moves back."""
        self._progress.take_back(data)

    def role_changed(self, role: Role, now: int) -> None:
        """Continue at the confirmed progress. A new master has copied the progress of its master while it was a
        slave."""
        for level in self._levels:
            level.progress.restart()
        self._next_check = now

    def cut(self, now: int) -> bool:
        """Clamp the offset of each level to the end of its queue. Return whether any changed. The caller must then
        persist them before the next append, or a later start skips messages that reuse these offsets."""
        lost = self.damaged.cut(int(self._store.end_offset))
        return self._progress.cut(now) or lost

    def _advance(self) -> None:
        """Limit the persisted progress to synced records, whatever the flush mode confirms: the file itself is
        synced."""
        safe = int(min(self._store.confirm_offset, self._store.flushed_offset))
        for level in self._levels:
            level.progress.advance(safe)

    def taken_back(self, written_offset: int) -> None:
        """Called after a failed write: redeliver its messages after a pause."""
        gone = False
        for level in self._levels:
            gone = level.progress.taken_back(written_offset) or gone
        if gone:
            self.failures += 1
            self._next_check = self._not_before = self._now + RETRY_MS

    # -- delivery

    def due(self, now: int) -> int | None:
        """Return the time of the next tick (ms), or None if no message is pending and the file is current. An
        arrival re-evaluates it."""
        return self._next_check if self.role.may_deliver and self._works() else None

    def _works(self) -> bool:
        offsets = zip(self._levels, self._progress.persisted, strict=True)
        return any(not persisted == level.offset == level.end for level, persisted in offsets)

    def tick(self, now: int, budget: int) -> None:
        """Deliver due messages within the limits of a turn. Check again after 100 ms, or immediately if more are
        due."""
        self._now = now
        if not self.role.may_deliver:
            return
        written = int(self._store.written_offset)
        for level in self._levels:
            level.progress.away.go_on(now)
            level.progress.written(written)
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
        """Return the delivered offset and the end of the queue of each level, for runtime info."""
        return {level.level: (level.offset, level.end) for level in self._levels}

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
        self._loads.begin()
        if more:
            self._next_check = now

    def _deliver(self, level: Level, now: int, budget: int) -> int:
        """Deliver due messages of one level. Return the number of processed units."""
        level.more = False
        end = level.end
        if level.offset >= end or level.loading:
            if level.offset > end:  # its topic was deleted
                level.progress.reset(end)
            return 0
        level.now = now
        done = 0
        for physical_offset, size in level.places(budget):
            if not level.bring(done) or not self._pass(level, physical_offset, size, now):
                level.more = False
                break
            level.offset += 1
            done += 1
        level.runs.close()
        return done

    def _loaded(self, now: int) -> None:
        self._next_check = min(self._next_check, now)
        self._effects.wake(self)

    def _pass(self, level: Level, physical_offset: int, size: int, now: int) -> bool:
        """Deliver one message, or set it aside if it is damaged. Return False to retry it at the next tick."""
        try:
            record = level.runs.intact(physical_offset, size)
        except RecordDamaged as error:  # a copy would get a CRC that matches the damaged body
            self.failures += 1
            return self.damaged.add(physical_offset, size, str(error), now)
        return record is None or self._put(level, record, now)

    def _put(self, level: Level, record: Record, now: int) -> bool:
        """Store the record under its own topic. Return False to retry the record at the next tick."""
        try:
            message = due_message(record, self._writer)
            if message is None:
                return True
            if self.role.sends_away:
                return level.progress.away.begin(message, level.offset)
            appended = self._writer.put(message, now)
        except BolideError as error:
            self.failures += 1
            if response_code(error) == MESSAGE_ILLEGAL:  # a retry does not help
                waits = f"delay level {level.level} waits for a message it cannot deliver"
                self._store.maintenance.problem = f"{waits}: {error}"
            return False
        level.progress.appended(int(appended.end_offset))
        return True

    def _deliver_late(self, record: Record, now: int) -> int:
        """Deliver a record that was damaged before (`DamagedDelays.deliver`)."""
        message = due_message(record, self._writer)
        return 0 if message is None else int(self._writer.put(message, now).end_offset)
