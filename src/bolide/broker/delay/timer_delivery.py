"""Delivers due timer messages to their topics, or rolls them back to the timer topic.

RocketMQ's TimerMessageStore.convert and doPut. Java drops a message after three rejected writes. Here it remains the
next one until the store accepts it. If added properties make it too long, it is delivered without them. Messages of a
failed write are redelivered before any other.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from bolide.broker.append.log_writer import LogWriter
from bolide.broker.append.timer_rules import java_long
from bolide.broker.core.away import Journeys
from bolide.broker.core.effects import Effects
from bolide.broker.core.names import NO_SEND_TOPICS
from bolide.broker.delay.damaged_delays import DamagedDelays
from bolide.broker.delay.timer_metrics import TimerMetrics
from bolide.broker.refused import response_code
from bolide.errors import BolideError
from bolide.layout import property_names as names
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.message_properties import MessageProperties, stored_properties
from bolide.layout.names import HALF_TOPIC, TIMER_TOPIC
from bolide.layout.record import Record, copy_of
from bolide.remoting.codes import MESSAGE_ILLEGAL
from bolide.store.errors import RecordDamaged

RETRY_MS: Final = 500
FULL_MS: Final = 20
"""Pause while the limit of messages in flight to other sets is reached."""
NEVER_WAITED: Final = (1 << 63) - 1
"""TIMER_ENQUEUE_MS of a message that was due before it reached the wheel."""


@final
class Stored:
    """A redelivered timer message: its record, and the end of its copy in the log."""

    def __init__(self, record: Record, enqueue_time: int, rolls: bool) -> None:
        self.physical_offset: int = record.physical_offset
        self.size: int = record.total_size
        self.enqueue_time: int = enqueue_time
        self.rolls: bool = rolls
        self.end: int = 0


@final
class Delivery:
    """Delivers messages of the timer. After a method returns False, do not retry before `retry_at` (ms)."""

    def __init__(
        self,
        writer: LogWriter,
        metrics: TimerMetrics,
        precision: int,
        effects: Effects,
        service: object,
        damaged: DamagedDelays,
    ) -> None:
        """`service`: the service whose tick delivers."""
        self.retry_at: int = 0
        self.away: Journeys = Journeys(effects, service)
        """In-flight messages to other broker sets, on an acting slave."""
        self.failures: int = 0
        self.again: deque[Stored] = deque()
        """Rolled back deliveries, oldest first. Until they are stored again, no later message is complete."""
        self._fresh: list[Stored] = []
        self._damaged: DamagedDelays = damaged
        damaged.deliver[TIMER_TOPIC] = self._deliver_late
        self._writer: LogWriter = writer
        self._metrics: TimerMetrics = metrics
        self._pause: int = RETRY_MS * precision // 1000
        self._now: int = 0
        writer.store.on_taken_back.append(self.taken_back)

    def forget(self) -> None:
        """Drop pending redeliveries, because another broker is the master."""
        self.again.clear()
        self._fresh = []
        self.away.forget()

    @property
    def sends_away(self) -> bool:
        """Whether this is an acting slave that sends messages to other sets."""
        return self._writer.role.sends_away

    @property
    def open(self) -> bool:
        """Whether a delivery may have to be repeated, or a skipped damaged message is not stored in a table yet."""
        return len(self.again) > 0 or self.away.count > 0 or not self._damaged.saved

    def begin(self, now: int) -> None:
        """Start a turn. The deliveries of the last one are in the log, unless its write failed."""
        self._now = now
        self.away.go_on(now)
        if self.retry_at - now > self._pause:
            self.retry_at = now  # the clock was set back
        if self._fresh and self._fresh[len(self._fresh) - 1].end <= self._writer.store.written_offset:
            self._fresh = []

    def taken_back(self, written_offset: int) -> None:
        """Called after a failed write: redeliver its messages first, after a pause."""
        gone = [stored for stored in self._fresh if stored.end > written_offset]
        if gone:
            self._fresh = []
            self.again.extendleft(reversed(gone))
            self.failures += 1
            self.retry_at = self._now + self._pause

    def go_back(self, now: int, budget: int) -> int:
        """Store rolled back messages again, at most `budget`. Return the number processed."""
        left = budget
        while self.again and left > 0:
            stored = self.again[0]
            record = self._writer.store.record_at(stored.physical_offset, stored.size)
            if record is not None:
                properties = stored_properties(record.properties)
                put = self._roll if stored.rolls else self._deliver
                if not put(record, properties, stored.enqueue_time, now):
                    return budget - left
            self.again.popleft()
            left -= 1
        return budget - left

    def deliver(self, record: Record, properties: MessageProperties, enqueue_time: int, now: int) -> bool:
        """Store a message in its topic. Return False if the store rejects it now.

        The stored properties keep REAL_TOPIC, REAL_QID and TIMER_OUT_MS, as in Java.
        """
        if not self._has_place(properties):
            return True
        if not self._deliver(record, properties, enqueue_time, now):
            return False
        self._count(properties, enqueue_time, now)
        return True

    def roll(self, record: Record, properties: MessageProperties, enqueue_time: int, now: int) -> bool:
        """Store a message in the timer topic again, where it continues to wait. Return False if the store rejects it
        now."""
        if not self._roll(record, properties, enqueue_time, now):
            return False
        self._count(properties, enqueue_time, now)
        return True

    def _has_place(self, properties: MessageProperties) -> bool:
        """Return whether the message has a valid destination. A delete is never delivered."""
        topic = properties.get(names.REAL_TOPIC) or ""
        queue_id = java_long(properties.get(names.REAL_QID) or "")
        if queue_id is None or properties.get(names.TIMER_DEL_UNIQKEY) is not None:
            return False
        if not self._writer.takes(topic, queue_id):
            return False
        # Otherwise no producer requested it: the message was written to the timer topic directly.
        return topic not in NO_SEND_TOPICS or topic == HALF_TOPIC

    def _deliver(self, record: Record, properties: MessageProperties, enqueue_time: int, now: int) -> bool:
        pairs = properties.pairs()
        message = copy_of(record, pairs[names.REAL_TOPIC], int(pairs[names.REAL_QID]), properties)
        return self._put(record, message, self._stamps(enqueue_time, now), Stored(record, enqueue_time, False), now)

    def unreadable(self, physical_offset: int, size: int, now: int) -> bool:
        """Skip a position without a readable timer record. Return False if the record is damaged and cannot be set
        aside now, so that the slot must wait."""
        try:
            self._writer.store.intact_record(physical_offset, size)
        except RecordDamaged as error:
            return self._set_aside(physical_offset, size, error, now)
        return True

    def _set_aside(self, physical_offset: int, size: int, error: RecordDamaged, now: int) -> bool:
        self.failures += 1
        if self._damaged.add(physical_offset, size, str(error), now):
            return True
        self.retry_at = now + self._pause
        return False

    def _deliver_late(self, record: Record, now: int) -> int:
        """Store a record that was damaged before in the timer topic again (`DamagedDelays.deliver`)."""
        properties = stored_properties(record.properties)
        message = copy_of(record, TIMER_TOPIC, 0, properties)
        message.properties.extend(self._roll_stamps(properties, NEVER_WAITED, now))
        return int(self._writer.put(message, now).end_offset)

    def _roll_stamps(self, properties: MessageProperties, enqueue_time: int, now: int) -> dict[str, str]:
        times = java_long(properties.get(names.TIMER_ROLL_TIMES) or "0") or 0
        return {**self._stamps(enqueue_time, now), names.TIMER_ROLL_TIMES: str(times + 1)}

    def _roll(self, record: Record, properties: MessageProperties, enqueue_time: int, now: int) -> bool:
        added = self._roll_stamps(properties, enqueue_time, now)
        message = copy_of(record, TIMER_TOPIC, 0, properties)
        return self._put(record, message, added, Stored(record, enqueue_time, True), now)

    def _stamps(self, enqueue_time: int, now: int) -> dict[str, str]:
        """Return the times when the message entered and left the wheel, by the wall clock."""
        left = int(self._writer.store.times.wall(now))
        return {names.TIMER_ENQUEUE_MS: str(enqueue_time), names.TIMER_DEQUEUE_MS: str(left)}

    def _put(self, record: Record, message: BrokerMessage, added: dict[str, str], stored: Stored, now: int) -> bool:
        """Store a message with added properties, or without them if they make it too long.

        Return False if the store rejects it now. A record that does not match its CRC is set aside.
        """
        try:
            self._writer.store.check(record)
        except RecordDamaged as error:
            return self._set_aside(record.physical_offset, record.total_size, error, now)
        message.properties.extend(added)
        if self.sends_away:
            if not self.away.begin(message, 0):
                self.retry_at = now + FULL_MS
                return False
            return True
        for _ in range(2):
            try:
                stored.end = int(self._writer.put(message, now).end_offset)
            except BolideError as error:
                self.failures += 1
                if response_code(error) != MESSAGE_ILLEGAL:
                    break
                self._writer.store.maintenance.problem = f"the timer waits for a message it cannot deliver: {error}"
                message = copy_of(record, message.topic, message.queue_id, stored_properties(record.properties))
            else:
                self._fresh.append(stored)
                return True
        self.retry_at = now + self._pause
        return False

    def _count(self, properties: MessageProperties, enqueue_time: int, now: int) -> None:
        if enqueue_time != NEVER_WAITED:
            self._metrics.add(properties.get(names.REAL_TOPIC), -1, now)
        self._metrics.dequeued += 1
