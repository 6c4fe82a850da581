"""Reads a queue in the background, and records the progress that survives a crash.

Each tick reads messages that are in memory. The pool loads the first other message, and a later tick continues with it.
Only transactions wait for the disk, because requests wait for them.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from bolide.broker.core.away import Journeys
from bolide.broker.cursor.cold_loads import ColdLoads
from bolide.layout.queue_unit import UNIT_SIZE
from bolide.store.disk.extents import Extent
from bolide.store.message_store import MessageStore
from bolide.store.reading.record_runs import RecordRuns

UNITS_AT_ONCE: Final = 256
"""Maximum number of messages per tick: a few milliseconds, so that the loop serves others. The next tick continues."""
BYTES_AT_ONCE: Final = 4 * 1024 * 1024
"""Limit for the sum of the record sizes of one tick. The first record may exceed it."""
MAX_UNCONFIRMED: Final = 32 * 1024 * 1024
"""Bytes of the log that may wait for the disk before background work pauses."""


class QueueCursor:
    """A position in one queue."""

    def __init__(self, store: MessageStore, topic: str, queue_id: int, loads: ColdLoads | None) -> None:
        """Without `loads`, `places` waits for the disk."""
        self.offset: int = 0
        """Offset of the next message. The owner advances it."""
        self.more: bool = False
        """Whether the queue has further messages for which `places` had no room."""
        self.runs: RecordRuns = RecordRuns(store.log)
        self.store: MessageStore = store
        self._topic: str = topic
        self._queue_id: int = queue_id
        self._loads: ColdLoads | None = loads
        self._load: int = 0
        """Number of the load with the data that the next read lacked, or 0."""
        self._lacked_units: bool = False
        self._places: list[tuple[int, int]] = []

    @property
    def loading(self) -> bool:
        """Whether the pool is loading the next message. Do not call `places` while it is."""
        return self._load > 0 and not self._may_wait

    @property
    def _may_wait(self) -> bool:
        """Whether the next read waits for the disk, because its data may have left memory since its load."""
        return self._loads is None or 0 < self._load <= self._loads.ended

    @property
    def end(self) -> int:
        """Offset after the newest message of the queue."""
        return int(self.store.max_queue_offset(self._topic, self._queue_id))

    def move_to(self, offset: int) -> int:
        """Move to this offset, or to the nearest one in the range of the queue. Return the new offset."""
        low = int(self.store.min_queue_offset(self._topic, self._queue_id))
        self.offset = min(max(offset, low), self.end)
        return self.offset

    def places(self, budget: int) -> list[tuple[int, int]]:
        """Return (physical offset, size) of the next messages that `wants` accepts: at most `budget`, and within the
        byte limit of a tick. Expired messages are skipped."""
        self.more = False
        places: list[tuple[int, int]] = []
        self._places = places
        queue = self.store.queues.get(self._topic, self._queue_id)
        if queue is None:
            return places
        self.offset = max(self.offset, int(queue.min_offset))
        units = queue.units(self.offset, budget, self._may_wait)
        if units is None:
            self._lacked_units = True
            self._want(queue.extent(self.offset, UNITS_AT_ONCE))
            return places
        if self._lacked_units:  # the units were loaded, but not their records
            self._lacked_units = False
            self._load = 0
        at: i64 = 0
        total: i64 = 0
        wanted = True
        while at + UNIT_SIZE <= len(units):
            physical_offset = read_i64_be(units, at)
            size: i64 = i64(read_i32_be(units, at + 8))
            wanted = self.wants(physical_offset, size, read_i64_be(units, at + 12), self.offset + len(places))
            total += size
            if not wanted or (total > BYTES_AT_ONCE and places):
                break
            places.append((int(physical_offset), int(size)))
            at += UNIT_SIZE
        if places:
            self.more = wanted and self.offset + len(places) < queue.max_offset
        else:
            self._load = 0
        return places

    def wants(self, physical_offset: i64, size: i64, tags_code: i64, offset: int) -> bool:
        """Return whether `places` includes this message. If not, `places` stops before it. `tags_code`: the field of
        its unit, which may be the address of an extension unit."""
        return True

    def bring(self, index: int) -> bool:
        """Make the record at this index of the last `places` readable in `runs`. Return False if it is not in memory:
        the pool then loads it, and the owner must stop for this tick."""
        if self.runs.bring(self._places, index, self._may_wait and index == 0):  # data was loaded for the first one
            self._load = 0
            return True
        self._want(self.runs.cold)
        return False

    def _want(self, extent: Extent | None) -> None:
        if self._loads is not None and extent is not None:
            self._load = self._loads.want(extent)


@final
class ProgressLedger:
    """Progress of one cursor. A message is done once the record that it caused is safe, or once another broker set has
    received it. A restart may repeat messages, but never skips one. Call `written` in each tick, and `taken_back`
    after a failed write."""

    def __init__(self, cursor: QueueCursor, away: Journeys) -> None:
        self.confirmed: int = cursor.offset
        """Messages before this offset are done. Stored progress must not exceed it."""
        self.away: Journeys = away
        """Messages in flight to other sets. The mark of each is its offset in the queue."""
        self._cursor: QueueCursor = cursor
        self._fresh: list[tuple[int, int]] = []
        """(end of a record in the log, offset after its message) of this turn. May be rolled back."""
        self._waiting: deque[tuple[int, int]] = deque()
        """The last such pair of each written turn, oldest first."""

    def appended(self, end_offset: int) -> None:
        """Note that the message at the cursor has caused a record that ends at `end_offset`. The owner then advances
        the cursor."""
        self._fresh.append((end_offset, self._cursor.offset + 1))

    def written(self, written_offset: int) -> None:
        """Note the end of the written log: records up to it cannot be rolled back."""
        if self._fresh and self._fresh[len(self._fresh) - 1][0] <= written_offset:
            self._waiting.append(self._fresh[len(self._fresh) - 1])
            self._fresh = []

    def taken_back(self, written_offset: int) -> bool:
        """Move the cursor back to the first message whose record is not in the log. Return whether it moved."""
        gone = False
        while self._fresh and self._fresh[len(self._fresh) - 1][0] > written_offset:
            self._cursor.offset = self._fresh.pop()[1] - 1
            gone = True
        return gone

    def advance(self, safe_offset: int) -> None:
        """Confirm messages whose records end at or before this offset of the log, or that another set has received."""
        while self._waiting and self._waiting[0][0] <= safe_offset:
            self.confirmed = self._waiting.popleft()[1]
        if not self._waiting:
            for end, following in self._fresh:
                if end > safe_offset:
                    return
                self.confirmed = following
            self.confirmed = self.away.first(self._cursor.offset)

    def reset(self, offset: int) -> None:
        """Continue at this offset. All messages before it are done."""
        self._cursor.offset = self.confirmed = offset
        self._fresh = []
        self._waiting.clear()

    def restart(self) -> None:
        """Continue at the first message that is not confirmed, because the role of the broker has changed."""
        self.advance(0)
        self.away.forget()
        self.reset(self.confirmed)
