"""Delivery of delayed messages: from SCHEDULE_TOPIC_XXXX to their own topic when their time has come.

Queue N of the schedule topic holds level N+1; its units carry the delivery time in place of a tags hash, so a level is
a queue sorted by time and one look at its head tells whether anything is due (RocketMQ's ScheduleMessageService,
behaviour facts 2.3). Progress is kept in config/delayOffset.json.

At least once: the file only ever says what the store has confirmed. A crash between delivery and the file delivers
again; the other way round, a file ahead of the log, would lose messages, so `encode` waits for the watermark.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from bolide.broker.channel import Channel
from bolide.broker.data_version import DataVersion
from bolide.broker.effects import Effects
from bolide.broker.names import HALF_TOPIC, SCHEDULE_TOPIC
from bolide.broker.outcome import Handler, Outcome, reply
from bolide.broker.put import PutDoor
from bolide.errors import BolideError
from bolide.layout.properties import parse_properties_bytes, text_of
from bolide.layout.property_names import REAL_QID, REAL_TOPIC
from bolide.layout.record import Record
from bolide.remoting import codes
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.decode import java_int
from bolide.remoting.json import parse_long
from bolide.store.message_store import MessageStore

CHECK_INTERVAL_MS: Final = 100
PERSIST_INTERVAL_MS: Final = 10_000
UNITS_AT_ONCE: Final = 256


class Level:
    """One delay level: how far it has been delivered, and how far that is confirmed."""

    def __init__(self, level: int, delay_ms: int, offset: int) -> None:
        self.level = level
        self.delay_ms = delay_ms
        self.offset = offset
        self.confirmed = offset
        self.waiting: deque[tuple[int, int]] = deque()
        """(physical end of the delivered record, schedule offset that follows it), oldest first."""

    def advance(self, confirm_offset: int) -> None:
        """Move what may be persisted up to the watermark."""
        while self.waiting and self.waiting[0][0] <= confirm_offset:
            self.confirmed = self.waiting.popleft()[1]
        if not self.waiting:
            self.confirmed = self.offset


class DelayService:
    """Delivers every level from its offset on; `levels_ms` is the table of messageDelayLevel."""

    persist_name = "delayOffset"

    def __init__(
        self, levels_ms: tuple[int, ...], store: MessageStore, door: PutDoor, effects: Effects, start: int
    ) -> None:
        self._store = store
        self._door = door
        self._effects = effects
        self._levels = [Level(index + 1, delay, 0) for index, delay in enumerate(levels_ms)]
        self._version = DataVersion(start, 0, 0)
        self._next_check = start + 1_000
        self._next_persist = start + PERSIST_INTERVAL_MS
        self._persisted: list[int] = [0] * len(levels_ms)
        self.failures = 0

    def handlers(self) -> dict[int, Handler]:
        return {codes.GET_ALL_DELAY_OFFSET: self.on_all}

    def on_all(self, channel: Channel, command: Command, now: int) -> Outcome:
        return reply(make_response(command, codes.SUCCESS, body=self.encode()))

    def encode(self) -> bytes:
        """config/delayOffset.json; also the body of GET_ALL_DELAY_OFFSET (45)."""
        for level in self._levels:
            level.advance(self._store.confirm_offset)
        table = {str(level.level): level.confirmed for level in self._levels if level.confirmed > 0}
        return encode_body({"dataVersion": self._version.to_json(), "offsetTable": table})

    def load(self, data: bytes) -> None:
        """Take over a stored delayOffset.json, as Java or we wrote it."""
        stored: Any = parse_long(data)
        for key, offset in (stored.get("offsetTable") or {}).items():
            index = int(key) - 1
            if 0 <= index < len(self._levels):
                self._levels[index].offset = self._levels[index].confirmed = int(offset)
                self._persisted[index] = int(offset)
        self._version.assign(stored.get("dataVersion") or {})

    def due(self, now: int) -> int | None:
        return self._next_check

    def tick(self, now: int, budget: int) -> None:
        """Deliver what is due, at most `budget` records; look again in 100 ms, or at once when the budget ran out."""
        left = budget
        for level in self._levels:
            if left <= 0:
                break
            left -= self._deliver(level, now, left)
        self._next_check = now + CHECK_INTERVAL_MS if left > 0 else now
        if now >= self._next_persist:
            self._next_persist = now + PERSIST_INTERVAL_MS
            progress = [level.offset for level in self._levels]
            if progress != self._persisted:
                self._persisted = progress
                self._version.next(now)
                self._effects.persist(self.persist_name)

    def behind(self) -> dict[int, tuple[int, int]]:
        """By level: delivered offset and end of its queue, for runtime info."""
        return {
            level.level: (level.offset, self._store.max_queue_offset(SCHEDULE_TOPIC, level.level - 1))
            for level in self._levels
        }

    def _deliver(self, level: Level, now: int, budget: int) -> int:
        queue_id = level.level - 1
        end = self._store.max_queue_offset(SCHEDULE_TOPIC, queue_id)
        if level.offset >= end:
            level.offset = min(level.offset, end)
            return 0
        level.offset = max(level.offset, self._store.min_queue_offset(SCHEDULE_TOPIC, queue_id))
        done = 0
        units = self._store.units(SCHEDULE_TOPIC, queue_id, level.offset, min(budget, UNITS_AT_ONCE))
        for physical_offset, size, code in units:
            record = None
            deliver_time = self._store.tags_code(SCHEDULE_TOPIC, queue_id, code)
            if deliver_time < 0:  # its extension unit is lost: the record says as much
                record = self._store.record_at(physical_offset, size)
                deliver_time = 0 if record is None else record.store_timestamp + level.delay_ms
            if deliver_time <= now + level.delay_ms and deliver_time > now:
                break
            record = record or self._store.record_at(physical_offset, size)
            if record is not None and not self._put(level, record, now):
                break
            level.offset += 1
            done += 1
        return done

    def _put(self, level: Level, record: Record, now: int) -> bool:
        """Store the record under its own topic. False: the same record is tried again at the next tick."""
        properties = parse_properties_bytes(record.properties)
        topic = properties.get(REAL_TOPIC, "")
        queue_id = java_int(properties.get(REAL_QID, "0"), 31)
        if not topic or topic == HALF_TOPIC or queue_id is None or queue_id < 0:
            return True  # nowhere to go: no producer could have meant it
        # The stored string keeps DELAY, REAL_TOPIC and REAL_QID, as Java leaves them; only the level no longer acts.
        try:
            appended = self._door.put_again(record, topic, queue_id, text_of(record.properties), now)
        except BolideError:
            self.failures += 1
            return False
        level.waiting.append((appended.end_offset, level.offset + 1))
        return True
