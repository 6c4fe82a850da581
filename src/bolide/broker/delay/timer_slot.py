"""Delivers one slot of the wheel: reads its units, collects its deletes, and delivers its messages in order.

RocketMQ's TimerMessageStore.dequeue in small steps, because a slot may contain any number of messages, and they must
not block the loop.
"""

from __future__ import annotations

from array import array
from typing import Final, final

from bolide.broker.cursor.queue_cursor import BYTES_AT_ONCE
from bolide.broker.delay.delete_keys import DeleteKeys
from bolide.broker.delay.timer_delivery import Delivery
from bolide.layout.message_properties import MessageProperties, stored_properties
from bolide.layout.names import TIMER_TOPIC
from bolide.layout.record import Record
from bolide.layout.timer import NOWHERE, Unit
from bolide.store.disk.extents import Extent
from bolide.store.message_store import MessageStore
from bolide.store.reading.record_runs import RecordRuns
from bolide.store.timer.timer_log import TimerLog

READ_AHEAD: Final = 64
"""Number of records fetched together; the pool reads those that are not in memory."""
UNITS_A_STEP: Final = 16
"""Number of units read in one step. A chain is read completely before its first message is delivered."""

WORKING: Final = 0
OVER: Final = 1
REFUSED: Final = 2
COLD: Final = 3
DAMAGED: Final = 4


@final
class SlotRun:
    """The delivery of one slot (`time`, ms) whose newest unit is at `last`."""

    def __init__(
        self, time: int, last: int, store: MessageStore, log: TimerLog, delivery: Delivery, delete_keys: DeleteKeys
    ) -> None:
        self.time = time
        self.state = WORKING
        """Result of `go_on`: WORKING (budget used), OVER, REFUSED (by the store), COLD (`extents`), DAMAGED (log)."""
        self.extents: list[Extent] = []
        self._store = store
        self._log = log
        self._delivery = delivery
        self._delete_keys = delete_keys
        self._at = last
        self._messages = array("q")
        """Positions of units, the newest first: the oldest is delivered first."""
        self._deletes = array("q")
        self._checked = 0
        self._runs = RecordRuns(store.log)
        self._ahead: dict[int, tuple[Unit, Record | None]] = {}
        """Fetched and unused records, by the position of their unit."""
        self._room = 0
        self._keys: dict[str, MessageProperties] = {}
        self._matched: set[str] = set()

    def go_on(self, now: int, budget: int) -> int:
        """Process at most `budget` units. Return the number processed, or `budget` if the turn has reached its byte
        limit."""
        left = budget
        self.state = WORKING
        self._room = BYTES_AT_ONCE
        while left > 0 and self.state == WORKING:
            left -= 1
            if self._at != NOWHERE:
                self._read_some()
            elif self._cold():
                self.state = COLD
            elif self._deletes:
                self._note_delete(self._deletes.pop())
                self._checked -= 1
            elif not self._messages:
                self.state = OVER
            elif self._take(self._messages[-1], now):
                self._ahead.pop(self._messages.pop(), None)
                self._checked -= 1
                if self._room <= 0:
                    return budget
            else:
                self.state = REFUSED
        return budget - left

    def deleted_nothing(self) -> list[MessageProperties]:
        """Return the properties of the deletes whose message was not in the slot."""
        return [properties for key, properties in self._keys.items() if key not in self._matched]

    def _read_some(self) -> None:
        for _ in range(UNITS_A_STEP):
            if self._at == NOWHERE or self.state != WORKING:
                return
            self._read()

    def _read(self) -> None:
        """Read one unit and follow its link to the next. A chain that continues in deleted files ends there."""
        at = self._at
        if at < self._log.begin:
            self._at = NOWHERE
            return
        unit = self._log.unit(at)
        if unit is None or unit.previous >= at:
            self.state = DAMAGED
            return
        (self._deletes if unit.deletes else self._messages).append(at)
        self._at = int(unit.previous)

    def _cold(self) -> bool:
        """Return whether records of the next units must be loaded from disk first; `extents` then lists them."""
        waiting = self._deletes or self._messages
        if self._checked > 0 or not waiting:
            return False
        places: list[tuple[int, int]] = []
        units: list[tuple[int, Unit]] = []
        total = 0
        # Checked only once: data that has left memory again by then is read from disk.
        self._checked = 0
        for at in reversed(waiting[-READ_AHEAD:]):
            if total >= BYTES_AT_ONCE:
                break
            self._checked += 1
            unit = self._log.unit(at)
            if unit is not None:
                units.append((at, unit))
                places.append((int(unit.physical_offset), int(unit.size)))
                total += int(unit.size)
        self._bring(units, places)
        return bool(self.extents)

    def _bring(self, units: list[tuple[int, Unit]], places: list[tuple[int, int]]) -> None:
        self.extents = []
        self._ahead.clear()
        cold_from = cold_to = 0
        for index, (at, unit) in enumerate(units):
            physical_offset, size = places[index]
            if cold_from <= physical_offset and physical_offset + size <= cold_to:
                continue  # in an extent that is loaded for an earlier record
            if self._runs.bring(places, index, False):
                self._ahead[at] = unit, self._runs.record(physical_offset, size)
            elif self._runs.cold is not None:
                self.extents.append(self._runs.cold)
                cold_from, cold_to = physical_offset, physical_offset + int(self._runs.cold.size)
        self._runs.close()

    def _found(self, at: int) -> tuple[Unit | None, Record | None]:
        """Return a unit and its record, or None for a record that has expired or cannot be read."""
        unit: Unit | None
        record: Record | None
        ahead = self._ahead.get(at)
        if ahead is not None:
            unit, record = ahead
        else:
            unit = self._log.unit(at)
            record = None if unit is None else self._store.record_at(unit.physical_offset, unit.size)
        return unit, record if record is not None and record.topic == TIMER_TOPIC else None

    def _note_delete(self, at: int) -> None:
        _, record = self._found(at)
        if record is not None:
            properties = stored_properties(record.properties)
            self._keys[self._delete_keys.of_delete(properties)] = properties

    def _take(self, at: int, now: int) -> bool:
        """Deliver, roll or delete one message. Return False if the store rejects it now."""
        unit, record = self._found(at)
        if unit is None:
            return True
        if record is None:
            return self._delivery.unreadable(int(unit.physical_offset), int(unit.size), now)
        self._room -= int(record.total_size)
        properties = stored_properties(record.properties)
        if unit.rolls:
            return self._delivery.roll(record, properties, int(unit.enqueue_time), now)
        if self._keys:
            key = self._delete_keys.of_message(properties)
            if key and key in self._keys:
                self._matched.add(key)
                return True
        return self._delivery.deliver(record, properties, int(unit.enqueue_time), now)
