"""One slot of the wheel on its way out: its units are read, its deletes noted, its messages delivered in their order.

RocketMQ's TimerMessageStore.dequeue, a few steps at a time: a slot may hold any number of messages, and the loop has
other things to do.
"""

from __future__ import annotations

from array import array
from typing import Final

from bolide.broker.names import TIMER_TOPIC
from bolide.broker.recall import delete_key
from bolide.broker.timer_delivery import Delivery
from bolide.layout import property_names as names
from bolide.layout.properties import parse_properties_bytes
from bolide.layout.record import Record
from bolide.layout.timer import NOWHERE, Unit
from bolide.store.message_store import MessageStore
from bolide.store.segments import Extent
from bolide.store.timer_log import TimerLog

READ_AHEAD: Final = 64
"""Records looked for in memory at once; those that are not there are read in the pool, together."""

WORKING: Final = 0
OVER: Final = 1
REFUSED: Final = 2
COLD: Final = 3
DAMAGED: Final = 4


class SlotRun:
    """The delivery of one slot (`time`, ms) whose newest unit is at `last`."""

    def __init__(
        self, time: int, last: int, store: MessageStore, log: TimerLog, delivery: Delivery, delete_with_topic: bool
    ) -> None:
        self.time = time
        self.state = WORKING
        """Why `go_on` returned: WORKING (budget), OVER, REFUSED (the store), COLD (`extents`), DAMAGED (the log)."""
        self.extents: list[Extent] = []
        self._store = store
        self._log = log
        self._delivery = delivery
        self._with_topic = delete_with_topic
        self._at = last
        self._messages = array("q")
        """Positions of units, the newest first: the oldest is delivered first."""
        self._deletes = array("q")
        self._checked = 0
        self._keys: dict[str, dict[str, str]] = {}
        self._matched: set[str] = set()

    def go_on(self, now: int, budget: int) -> int:
        """Do what can be done, at most `budget` units; returns how many were."""
        left = budget
        self.state = WORKING
        while left > 0 and self.state == WORKING:
            left -= 1
            if self._at != NOWHERE:
                self._read()
            elif self._cold():
                self.state = COLD
            elif self._deletes:
                self._note_delete(self._deletes.pop())
                self._checked -= 1
            elif not self._messages:
                self.state = OVER
            elif self._take(self._messages[-1], now):
                self._messages.pop()
                self._checked -= 1
            else:
                self.state = REFUSED
        return budget - left

    def deleted_nothing(self) -> list[dict[str, str]]:
        """The properties of the deletes whose message was not in the slot."""
        return [properties for key, properties in self._keys.items() if key not in self._matched]

    def _read(self) -> None:
        """One unit; the next is the one it names. A chain that leads into deleted files ends there."""
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
        """True when records of the next units must be read from the disk first: `extents` says what."""
        waiting = self._deletes or self._messages
        if self._checked > 0 or not waiting:
            return False
        ahead = waiting[-READ_AHEAD:]
        # Looked at once: what has left memory again by then is waited for.
        self._checked = len(ahead)
        self.extents = []
        for at in ahead:
            unit = self._log.unit(at)
            extent = None if unit is None else self._store.cold_extent(unit.physical_offset, unit.size)
            if extent is not None:
                self.extents.append(extent)
        return bool(self.extents)

    def _record(self, unit: Unit | None) -> Record | None:
        """The record a unit names; None when its time in the commit log was up."""
        record = None if unit is None else self._store.record_at(unit.physical_offset, unit.size)
        return record if record is not None and record.topic == TIMER_TOPIC else None

    def _note_delete(self, at: int) -> None:
        record = self._record(self._log.unit(at))
        if record is not None:
            properties = parse_properties_bytes(record.properties)
            self._keys[properties.get(names.TIMER_DEL_UNIQKEY, "")] = properties

    def _take(self, at: int, now: int) -> bool:
        """Deliver, roll or delete one message; False when the store does not take it now."""
        unit = self._log.unit(at)
        record = self._record(unit)
        if unit is None or record is None:
            return True
        properties = parse_properties_bytes(record.properties)
        if unit.rolls:
            return self._delivery.roll(record, properties, int(unit.enqueue_time), now)
        if self._keys:
            unique = properties.get(names.UNIQ_KEY, "")
            key = delete_key(properties.get(names.REAL_TOPIC, ""), unique, self._with_topic)
            if unique and key in self._keys:
                self._matched.add(key)
                return True
        return self._delivery.deliver(record, properties, int(unit.enqueue_time), now)
