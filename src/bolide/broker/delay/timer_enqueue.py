"""Moves messages from the timer topic into the slots of the wheel.

RocketMQ's TimerEnqueueGetService and TimerEnqueuePutService. A message that is already due is delivered immediately.
After a start without usable files, every message of the topic enters the wheel again, except delivered ones.
"""

from __future__ import annotations

from typing import final

from bolide.broker.append.timer_rules import java_long, relative_delay
from bolide.broker.cursor.queue_cursor import UNITS_AT_ONCE, QueueCursor
from bolide.broker.delay.delete_keys import DeleteKeys
from bolide.broker.delay.timer_delivery import NEVER_WAITED, Delivery
from bolide.broker.delay.timer_metrics import TimerMetrics
from bolide.broker.options.composed import BrokerOptions
from bolide.layout import property_names as names
from bolide.layout.hashes import java_hash
from bolide.layout.message_properties import MessageProperties, stored_properties
from bolide.layout.names import TIMER_TOPIC
from bolide.layout.record import Record
from bolide.layout.timer import MAGIC_DEFAULT, MAGIC_DELETE, MAGIC_ROLL, floor_time, out_time, roll_window, rolled_time
from bolide.store.timer.timer_files import TimerFiles, Wish


@final
class Entry:
    """A message of the timer queue. `record` is None if there is no message to deliver."""

    def __init__(
        self, physical_offset: int, size: int, record: Record | None, properties: MessageProperties, out: int
    ) -> None:
        self.physical_offset: int = physical_offset
        self.size: int = size
        self.record: Record | None = record
        self.properties: MessageProperties = properties
        self.out: int = out
        self.deletes: bool = properties.get(names.TIMER_DEL_UNIQKEY) is not None
        """Whether it only deletes another message."""


@final
class TimerEnqueue:
    """Reads the queue of the timer topic and puts its messages into the wheel."""

    def __init__(
        self,
        options: BrokerOptions,
        cursor: QueueCursor,
        files: TimerFiles,
        delivery: Delivery,
        metrics: TimerMetrics,
        precision: int,
    ) -> None:
        """`cursor` follows the queue of the timer topic: messages before it wait in the wheel, or are delivered.
        `precision`: duration of one slot in ms."""
        self.delete_keys: DeleteKeys = DeleteKeys(options)
        self._store = cursor.store
        self._cursor = cursor
        self._files = files
        self._delivery = delivery
        self._metrics = metrics
        self._precision = precision
        self._window = roll_window(options.delay.timer_roll_window_slot, files.wheel.round_slots)
        self._write_time: int = 0
        self._running: int = -1
        self._rebuild_to: int = 0
        self._rebuild_from: int = 0
        self._rolled: set[tuple[str, int]] = set()

    def reset(self, files: TimerFiles) -> None:
        """Start with the empty wheel in these files."""
        self._files = files
        self._rebuild_to = self._cursor.offset = 0
        self._rolled.clear()

    @property
    def rebuilding(self) -> bool:
        """Whether messages of an earlier wheel are being added again."""
        return self._rebuild_to > 0

    def start_over(self, read_time: int, queue_offset: int) -> None:
        """Add every message of the queue to the empty wheel again unless it was due before `read_time` (ms).

        A rolled message is in the queue several times; only its newest copy is used. A `queue_offset` beyond the end of
        the queue is from a log that was lost.
        """
        self._rebuild_from = read_time
        earlier = min(queue_offset, self._cursor.end)
        self._rebuild_to = earlier if earlier > self._cursor.move_to(0) else 0
        ahead = QueueCursor(self._store, TIMER_TOPIC, 0, None)
        while ahead.offset < self._rebuild_to and (places := ahead.places(UNITS_AT_ONCE)):
            for place in places:
                record = self._store.record_at(*place)
                if record is not None:
                    self._note_roll(stored_properties(record.properties))
            ahead.offset += len(places)

    def _note_roll(self, properties: MessageProperties) -> None:
        times = java_long(properties.get(names.TIMER_ROLL_TIMES) or "")
        if times:
            self._rolled.add((properties.get(names.UNIQ_KEY) or "", times))

    def enqueue(self, now: int, budget: int, write_time: int, running: int) -> int:
        """Add up to `budget` messages of the queue to the wheel. Messages already due are delivered immediately.

        Slots before `write_time` (ms) may have ended. The slot at `running` is being delivered (-1: no slot). Return
        the number of messages read. Raises `FileFailed` if the files cannot be written.
        """
        self._write_time = write_time
        self._running = running
        entries = self._entries(budget)
        wall = int(self._store.times.wall(now))
        current = floor_time(wall, self._precision)
        gone = {(self.delete_keys.of_delete(e.properties), e.out) for e in entries if e.deletes and e.out < current}
        wishes: list[tuple[Wish, MessageProperties]] = []
        passed = 0
        for entry in entries:
            if entry.record is None or self._was_done(entry, self._cursor.offset + passed):
                # No longer in the log, not a timer message, damaged, or delivered before the rebuild.
                if entry.record is None and not self._delivery.unreadable(entry.physical_offset, entry.size, now):
                    break
                passed += 1
                continue
            if entry.out < current and not self._meets_its_slot(entry):
                passed = self._settle(wishes, passed)
                if (self.delete_keys.of_message(entry.properties), entry.out) not in gone:
                    if not self._delivery.deliver(entry.record, entry.properties, NEVER_WAITED, now):
                        return len(entries)
                self._cursor.offset += 1  # immediately, because later messages may fail and this one is delivered
                continue
            wishes.append((self._wish(entry, wall), entry.properties))
            passed += 1
        self._settle(wishes, passed)
        if self._rebuild_to and self._cursor.offset >= self._rebuild_to:
            self._rebuild_to = 0
            self._rolled.clear()
        return len(entries)

    def _entries(self, budget: int) -> list[Entry]:
        """Return the next messages of the queue. They end before the first message that is not in memory."""
        entries: list[Entry] = []
        for physical_offset, size in self._cursor.places(budget):
            if not self._cursor.bring(len(entries)):
                break
            entries.append(self._entry(physical_offset, size))
        self._cursor.runs.close()
        return entries

    def _entry(self, physical_offset: int, size: int) -> Entry:
        record = self._cursor.runs.record(physical_offset, size)
        properties = stored_properties(b"" if record is None else record.properties)
        out = java_long(properties.get(names.TIMER_OUT_MS) or "")
        return Entry(physical_offset, size, None if out is None else record, properties, out or 0)

    def _meets_its_slot(self, entry: Entry) -> bool:
        """Return whether this is a late delete whose message is also late, in a slot whose delivery has not started."""
        return entry.deletes and self._running != entry.out and self._files.wheel.get(entry.out) is not None

    def _settle(self, wishes: list[tuple[Wish, MessageProperties]], passed: int) -> int:
        """Add the messages read so far to the wheel, then advance the queue offset. Raises `FileFailed` without
        changes."""
        if wishes:
            self._files.append([wish for wish, _ in wishes], self._write_time)
            for wish, properties in wishes:
                count = -1 if wish.magic & MAGIC_DELETE else 1
                self._metrics.add(properties.get(names.REAL_TOPIC), count, self._write_time)
            self._metrics.enqueued += len(wishes)
            wishes.clear()
        self._cursor.offset += passed
        return 0

    def _wish(self, entry: Entry, wall: int) -> Wish:
        # Never before the write time, because that slot may have ended. The write time is later than `out` only if the
        # clock was set back, or for a delete that meets its slot.
        out = entry.out if self._meets_its_slot(entry) else max(self._bounded(entry, wall), self._write_time)
        time = int(rolled_time(out, self._write_time, self._window, self._precision))
        magic = MAGIC_DEFAULT
        if time != out:
            magic |= MAGIC_ROLL
        if entry.deletes:
            magic |= MAGIC_DELETE
        topic = entry.properties.get(names.REAL_TOPIC)
        topic_hash = 0 if topic is None else java_hash(topic)
        return Wish(floor_time(time, self._precision), magic, entry.physical_offset, entry.size, topic_hash)

    def _bounded(self, entry: Entry, wall: int) -> int:
        """Return the delivery time of an entry in ms. With a relative delay, it is at most now plus the delay, even if
        the clock of the machine that stored the message was ahead of the local clock."""
        delay = -1 if entry.deletes else relative_delay(entry.properties)
        return entry.out if delay < 0 else min(entry.out, int(out_time(wall + delay, self._precision)))

    def _was_done(self, entry: Entry, queue_offset: int) -> bool:
        if queue_offset >= self._rebuild_to:
            return False
        if entry.out < self._rebuild_from:
            return True
        times = java_long(entry.properties.get(names.TIMER_ROLL_TIMES) or "0") or 0
        return (entry.properties.get(names.UNIQ_KEY) or "", times + 1) in self._rolled
