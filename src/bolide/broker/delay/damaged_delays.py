"""Due delayed messages whose records are damaged: later messages are delivered, and the damaged ones are retried.

RocketMQ delivers a copy of a damaged record with a new CRC. Bolide never copies a record that does not match its CRC.
Delivery skips the record, and config/delayOffset.json contains its position in the log. Slaves copy that table. The
broker reads the record again every minute, and when its role changes, so the next master delivers records that are
intact in its log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, final

from bolide.broker.core.effects import Effects
from bolide.broker.core.role import Role
from bolide.broker.core.service import Service
from bolide.broker.cursor.cold_loads import ColdLoads
from bolide.errors import BolideError
from bolide.layout.record import Record, body_matches
from bolide.store.message_store import MessageStore

MOST: Final = 1_000
"""Maximum number of damaged records. Above it, delivery waits at the next damaged record."""
RETRY_MS: Final = 60_000
SETTLE_MS: Final = 1_000
PERSIST_NAME: Final = "delayOffset"
"""The table that contains the positions of damaged records."""


@final
class DamagedDelays(Service):
    """The positions of damaged delayed messages, in the order in which they are retried, one per tick."""

    def __init__(self, store: MessageStore, role: Role, effects: Effects) -> None:
        self.deliver: dict[str, Callable[[Record, int], int]] = {}
        """By topic: stores the message that a delayed record contains. Returns the end offset of the new record, or 0
        if the message is dropped. Raises `BolideError`."""
        self._store = store
        self._role = role
        self._effects = effects
        self._sizes: dict[int, int] = {}
        """Size of each record, by its offset in the log."""
        self._line: deque[tuple[int, int]] = deque()
        """(time of the next try in ms, offset) of each record that is not delivered yet."""
        self._delivered: dict[int, int] = {}
        """End offset of the new record of each delivered message, until the new record is safe."""
        self._settle_at = 0
        self._loads = ColdLoads(store, effects, lambda now: effects.wake(self))
        self._changes = self._saving = self._saved = 0
        store.on_taken_back.append(self._taken_back)

    # -- the table

    @property
    def count(self) -> int:
        """Number of damaged messages."""
        return len(self._sizes)

    @property
    def saved(self) -> bool:
        """Whether all positions are on disk, so that stored progress may skip them."""
        return self._saved == self._changes

    def places(self) -> list[list[int]]:
        """Return [offset in the log, size] of each record."""
        return [[offset, size] for offset, size in self._sizes.items()]

    def take(self, places: Iterable[tuple[int, int]]) -> bool:
        """Replace all positions with those of the file or of a master. Return whether they differ."""
        before, self._sizes = self._sizes, dict(places)
        self._line = deque((0, offset) for offset in self._sizes)
        self._delivered.clear()
        return before != self._sizes

    def take_more(self, places: Iterable[tuple[int, int]]) -> None:
        """Add the positions of an acting slave."""
        for offset, size in places:
            if offset not in self._sizes:
                self._sizes[offset] = size
                self._line.append((0, offset))
                self._changed()

    def cut(self, end: int) -> bool:
        """Remove the positions at or after `end`, the end of the log. Return whether there were any."""
        return self.take([(offset, size) for offset, size in self._sizes.items() if offset < end])

    def begin(self) -> None:
        """Called when a write of the table starts."""
        self._saving = self._changes

    def written(self) -> None:
        """Called when that write is on disk."""
        self._saved = self._saving

    def _changed(self) -> None:
        self._changes += 1
        self._effects.persist(PERSIST_NAME)

    # -- in and out

    def add(self, offset: int, size: int, why: str, now: int) -> bool:
        """Record a damaged record, so that delivery can skip it. Return False at the limit: delivery must then wait."""
        maintenance = self._store.maintenance
        if offset not in self._sizes:
            if len(self._sizes) >= MOST:
                maintenance.problem = f"delayed delivery waits, {MOST} damaged messages are set aside already: {why}"
                return False
            self._sizes[offset] = size
            self._line.append((now + RETRY_MS, offset))
            self._changed()
        maintenance.problem = (
            f"a delayed message is damaged and set aside ({self.count} in all); it is tried again every minute, and "
            f"the next master of a set delivers it if its own log is intact: {why}"
        )
        return True

    def due(self, now: int) -> int | None:
        """Return the time of the next try in ms, or None."""
        if not self._sizes or self._loads.active or not self._role.may_deliver or self._role.sends_away:
            return None
        at = self._line[0][0] if self._line else now + RETRY_MS
        return min(at, self._settle_at) if self._delivered else at

    def tick(self, now: int, budget: int) -> None:
        """Read one record again, and deliver it if it is intact now."""
        due = self.due(now)
        if due is None or now < due:
            return
        self._settle(now)
        if not self._line or now < self._line[0][0]:
            return
        _, offset = self._line[0]
        if self._loads.lacks(offset, self._sizes[offset]):
            return
        self._line.popleft()
        self._try(offset, now)

    def role_changed(self, role: Role, now: int) -> None:
        """Retry every record, because it may be intact in the log of this broker."""
        self.take(self._sizes.items())

    def _try(self, offset: int, now: int) -> None:
        store = self._store
        record = store.record_at(offset, self._sizes[offset])
        if offset < store.min_physical_offset():
            store.maintenance.problem = (
                f"the delayed message at offset {offset} of the log is lost: it was damaged when its file was deleted"
            )
            self._drop(offset)
        elif record is None or not body_matches(record):
            self._line.append((now + RETRY_MS, offset))
        elif record.topic not in self.deliver:
            self._drop(offset)  # a repair of the store has written another record
        else:
            try:
                end = self.deliver[record.topic](record, now)
            except BolideError:
                self._line.append((now + RETRY_MS, offset))
                return
            if end:
                self._delivered[offset] = end
                self._settle_at = now + SETTLE_MS
            else:
                self._drop(offset)

    def _drop(self, offset: int) -> None:
        del self._sizes[offset]
        self._changed()

    def _settle(self, now: int) -> None:
        """Remove the positions of messages that are delivered safely."""
        safe = min(self._store.confirm_offset, self._store.flushed_offset)
        for offset in [offset for offset, end in self._delivered.items() if end <= safe]:
            del self._delivered[offset]
            self._drop(offset)
        self._settle_at = now + SETTLE_MS

    def _taken_back(self, written_offset: int) -> None:
        """Called after a failed write; requeues the records whose delivery was part of it."""
        for offset in [offset for offset, end in self._delivered.items() if end > written_offset]:
            del self._delivered[offset]
            self._line.append((self._settle_at, offset))
