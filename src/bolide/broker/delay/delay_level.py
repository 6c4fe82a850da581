"""One delay level: a cursor over its queue in the schedule topic, which stops at the first message that is not due."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from bolide.broker.core.away import Journeys
from bolide.broker.cursor.cold_loads import ColdLoads
from bolide.broker.cursor.queue_cursor import ProgressLedger, QueueCursor
from bolide.layout.names import SCHEDULE_TOPIC
from bolide.store.message_store import MessageStore


@final
class Level(QueueCursor):
    """One delay level, with its delivered and its safe progress."""

    def __init__(self, level: int, delay_ms: int, store: MessageStore, loads: ColdLoads, away: Journeys) -> None:
        super().__init__(store, SCHEDULE_TOPIC, level - 1, loads)
        self.level: int = level
        self.progress: ProgressLedger = ProgressLedger(self, away)
        self.now: int = 0
        """Time of the current tick."""
        self._delay_ms: int = delay_ms
        self._ahead: int = 0
        """Lead (ms) of the clock that stored messages before offset `_ahead_until` with times after `_ahead_from`."""
        self._ahead_from: int = 0
        self._ahead_until: int = 0

    def wants(self, physical_offset: i64, size: i64, tags_code: i64, offset: int) -> bool:
        """Return whether this message is due."""
        time = self.store.tags_code(SCHEDULE_TOPIC, self.level - 1, tags_code)
        if time < 0:  # its extension unit is lost, but the record has the time
            record = self.store.record_at(physical_offset, size)
            time = 0 if record is None else record.store_timestamp + self._delay_ms
        return self._due_at(int(self.store.times.steady(time, physical_offset)), offset) <= self.now

    def _due_at(self, time: int, offset: int) -> int:
        """Return when a message with this time is due.

        A time further ahead than the delay is from another clock: the clock of a lost master, or of this host before it
        was set back and the broker restarted. Such a message is due one delay after now. Later messages keep their
        distance from it.
        """
        if offset >= self._ahead_until:
            self._ahead_from = self._ahead_until = 0
        own = time - self._ahead if time > self._ahead_from and offset < self._ahead_until else time
        if own <= self.now + self._delay_ms:
            return own
        self._ahead_from = self.now + self._delay_ms
        self._ahead_until = self.end
        self._ahead = time - self._ahead_from
        return self._ahead_from
