"""Putting a message whose time has come where it belongs: under its own topic, or once more on the timer topic.

RocketMQ's TimerMessageStore.convert and doPut. Where Java gives a message up after three refused writes, here it stays
first in line until the store takes it; one whose properties grow too long by what delivery adds goes without that.
What a failed write took back is delivered again, before anything else is.
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
"""Pause while enough messages are on their way to other sets."""
NEVER_WAITED: Final = (1 << 63) - 1
"""TIMER_ENQUEUE_MS of a message that was due before it came to the wheel."""


@final
class Stored:
    """A message of the timer that was stored again: what it was, and where the copy ends in the log."""

    def __init__(self, record: Record, enqueue_time: int, rolls: bool) -> None:
        self.physical_offset: int = record.physical_offset
        self.size: int = record.total_size
        self.enqueue_time: int = enqueue_time
        self.rolls: bool = rolls
        self.end: int = 0


@final
class Delivery:
    """Stores messages of the timer again. After a False nothing is to be tried before `retry_at` (ms)."""

    def __init__(
        self,
        writer: LogWriter,
        metrics: TimerMetrics,
        precision: int,
        effects: Effects,
        service: object,
        damaged: DamagedDelays,
    ) -> None:
        """`service` is whose tick delivers."""
        self.retry_at: int = 0
        self.away: Journeys = Journeys(effects, service)
        """What is on its way to other sets: an acting slave's."""
        self.failures: int = 0
        self.again: deque[Stored] = deque()
        """What was taken back, oldest first: until it is stored again, nothing after it may count as done."""
        self._fresh: list[Stored] = []
        self._damaged: DamagedDelays = damaged
        damaged.deliver[TIMER_TOPIC] = self._deliver_late
        self._writer: LogWriter = writer
        self._metrics: TimerMetrics = metrics
        self._pause: int = RETRY_MS * precision // 1000
        self._now: int = 0
        writer.store.on_taken_back.append(self.taken_back)

    def forget(self) -> None:
        """Nothing is to be delivered again: another broker is the master."""
        self.again.clear()
        self._fresh = []
        self.away.forget()

    @property
    def sends_away(self) -> bool:
        """True on an acting slave that sends to other sets."""
        return self._writer.role.sends_away

    @property
    def open(self) -> bool:
        """Whether a delivery may have to be repeated, or a damaged message that was passed over is in no table yet."""
        return len(self.again) > 0 or self.away.count > 0 or not self._damaged.saved

    def begin(self, now: int) -> None:
        """A turn begins: what the last one delivered is in the log, unless its write did not happen."""
        self._now = now
        self.away.go_on(now)
        if self.retry_at - now > self._pause:
            self.retry_at = now  # the clock went back
        if self._fresh and self._fresh[len(self._fresh) - 1].end <= self._writer.store.written_offset:
            self._fresh = []

    def taken_back(self, written_offset: int) -> None:
        """A write failed: what was in it is delivered first, after a pause."""
        gone = [stored for stored in self._fresh if stored.end > written_offset]
        if gone:
            self._fresh = []
            self.again.extendleft(reversed(gone))
            self.failures += 1
            self.retry_at = self._now + self._pause

    def go_back(self, now: int, budget: int) -> int:
        """Store again what was taken back, at most `budget` messages; returns how many."""
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
        """Put a message into its own topic; False when the store does not take it now.

        The stored properties keep REAL_TOPIC, REAL_QID and TIMER_OUT_MS, as Java leaves them.
        """
        if not self._has_place(properties):
            return True
        if not self._deliver(record, properties, enqueue_time, now):
            return False
        self._count(properties, enqueue_time, now)
        return True

    def roll(self, record: Record, properties: MessageProperties, enqueue_time: int, now: int) -> bool:
        """Put a message back to the timer topic, where it continues to wait."""
        if not self._roll(record, properties, enqueue_time, now):
            return False
        self._count(properties, enqueue_time, now)
        return True

    def _has_place(self, properties: MessageProperties) -> bool:
        """False when it has nowhere to go, or is a delete, which is never delivered."""
        topic = properties.get(names.REAL_TOPIC) or ""
        queue_id = java_long(properties.get(names.REAL_QID) or "")
        if queue_id is None or properties.get(names.TIMER_DEL_UNIQKEY) is not None:
            return False
        if not self._writer.takes(topic, queue_id):
            return False
        # Otherwise no producer asked for it: somebody wrote to the timer topic directly.
        return topic not in NO_SEND_TOPICS or topic == HALF_TOPIC

    def _deliver(self, record: Record, properties: MessageProperties, enqueue_time: int, now: int) -> bool:
        pairs = properties.pairs()
        message = copy_of(record, pairs[names.REAL_TOPIC], int(pairs[names.REAL_QID]), properties)
        return self._put(record, message, self._stamps(enqueue_time, now), Stored(record, enqueue_time, False), now)

    def unreadable(self, physical_offset: int, size: int, now: int) -> bool:
        """Pass over a place without a record of the timer. Return False if it is damaged and the slot must wait."""
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
        """Put a record that was damaged before back to the timer topic (`DamagedDelays.deliver`)."""
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
        """When the message entered the wheel and when it left it, by the wall clock."""
        left = int(self._writer.store.times.wall(now))
        return {names.TIMER_ENQUEUE_MS: str(enqueue_time), names.TIMER_DEQUEUE_MS: str(left)}

    def _put(self, record: Record, message: BrokerMessage, added: dict[str, str], stored: Stored, now: int) -> bool:
        """Store a message with these properties added, or without them where that makes it too long.

        False if the store does not take it now. A record that does not match its CRC is set aside.
        """
        try:
            self._writer.store.check(record)
        except RecordDamaged as error:
            return self._set_aside(record.physical_offset, record.total_size, error, now)
        message.properties.extend(added)
        if self.sends_away:
            if self.away.full:
                self.retry_at = now + FULL_MS
                return False
            self.away.begin(message, 0)
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
