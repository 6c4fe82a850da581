"""Half messages of transactions that are not decided yet, and how far their two queues are done with.

A half message waits on RMQ_SYS_TRANS_HALF_TOPIC until an op record on RMQ_SYS_TRANS_OP_HALF_TOPIC names its offset:
then its transaction is decided. Progress in both queues is kept as consumer offsets of CID_RMQ_SYS_TRANS, where a Java
broker looks for it as well. The table is rebuilt from the queues at every start (protocol/behaviour.md 4).

What we decide ourselves counts as decided only once its op record can be read: until then progress does not pass it
(a power cut may still take the op record), and a write that failed makes its half message undecided again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from bolide.broker.consumer_offsets import ConsumerOffsets
from bolide.broker.names import HALF_TOPIC, OP_HALF_TOPIC
from bolide.store.message_store import MessageStore

GROUP: Final = "CID_RMQ_SYS_TRANS"
SCAN_AT_ONCE: Final = 256
EVERYTHING: Final = 1 << 40
PRUNE_ABOVE: Final = 1024


@dataclass(frozen=True)
class Half:
    """Where an undecided half message is."""

    queue_offset: int
    physical_offset: int
    size: int


class HalfMessages:
    """The undecided half messages of one broker, by their offset in the half queue."""

    def __init__(self, store: MessageStore, offsets: ConsumerOffsets) -> None:
        self._store = store
        self._offsets = offsets
        self.pending: dict[int, Half] = {}
        """Undecided, in the order of their offsets."""
        self.named: set[int] = set()
        """Named by an op record that was read."""
        self._deciding: dict[int, tuple[int, Half]] = {}
        """Decided by us: (physical end of the op record, half message), until the op record is read."""
        self._renewed: dict[int, int] = {}
        """Offset of a half message -> offset under which it was stored anew for a check."""
        self._ops: deque[tuple[int, int]] = deque()
        """(offset in the op queue, greatest half offset it names), oldest first."""
        self._half_scanned = -1
        self._op_scanned = -1
        self._read_once = False

    def catch_up(self) -> None:
        """Read both queues to their ends unless that was done since the start: before it nothing is known decided."""
        if not self._read_once:
            self.scan(EVERYTHING)

    def newest(self, queue_offset: int) -> int:
        """The offset a half message has now, after it was stored anew for checks since the start."""
        while queue_offset in self._renewed:
            queue_offset = self._renewed[queue_offset]
        return queue_offset

    def is_decided(self, queue_offset: int) -> bool:
        """True when this half message was committed, rolled back, renewed or given up."""
        if queue_offset in self.named or queue_offset in self._deciding:
            return True
        return queue_offset < self._half_scanned and queue_offset not in self.pending

    def decide(self, half: Half, op_end: int) -> None:
        """A transaction is decided by an op record appended in this turn, which ends at physical offset `op_end`."""
        self.pending.pop(half.queue_offset, None)
        self._deciding[half.queue_offset] = (op_end, half)

    def renew(self, old: int, new: int) -> None:
        """A half message was stored anew: whoever ends the old one means the new one."""
        self._renewed[old] = new

    def scan(self, budget: int) -> bool:
        """Read what is new in both queues, ops first, at most `budget` units; True when nothing is left to read."""
        if self._op_scanned < 0:
            self._begin()
        dispatched = int(self._store.dispatched_offset)
        left = budget
        while left > 0 and (read := self._scan_ops(min(left, SCAN_AT_ONCE))):
            left -= read
        if left > 0:
            self._take_back(dispatched)
        while left > 0 and (read := self._scan_halves(min(left, SCAN_AT_ONCE))):
            left -= read
        if left > 0:
            self._read_once = True
        return left > 0

    def progress(self, now: int) -> None:
        """Store how far both queues are done with, as a consumer group would."""
        if not self._read_once:
            return
        done = next(iter(self.pending), self._half_scanned)
        if self._deciding:
            done = min(done, min(self._deciding))
        if len(self.named) > PRUNE_ABOVE and min(self.named) < done:
            self.named = {offset for offset in self.named if offset >= done}
        if self._renewed:
            self._renewed = {old: new for old, new in self._renewed.items() if new >= done}
        while self._ops and self._ops[0][1] < done:
            self._ops.popleft()
        self._offsets.commit(GROUP, HALF_TOPIC, 0, done, now)
        self._offsets.commit(GROUP, OP_HALF_TOPIC, 0, self._ops[0][0] if self._ops else self._op_scanned, now)

    def _begin(self) -> None:
        low = self._store.min_queue_offset(HALF_TOPIC, 0)
        self._half_scanned = max(self._offsets.query(GROUP, HALF_TOPIC, 0), int(low), 0)
        low = self._store.min_queue_offset(OP_HALF_TOPIC, 0)
        self._op_scanned = max(self._offsets.query(GROUP, OP_HALF_TOPIC, 0), int(low), 0)

    def _scan_ops(self, count: int) -> int:
        units = self._store.units(OP_HALF_TOPIC, 0, self._op_scanned, count)
        for physical_offset, size, _ in units:
            record = self._store.record_at(physical_offset, size)
            offsets = [] if record is None else half_offsets(record.body)
            for offset in offsets:
                self.named.add(offset)
                self.pending.pop(offset, None)
                self._deciding.pop(offset, None)
            if offsets:
                self._ops.append((self._op_scanned, max(offsets)))
            self._op_scanned += 1
        return len(units)

    def _take_back(self, dispatched: int) -> None:
        """Make undecided again what an op record should name by now: that record never got into the log."""
        lost = [half for end, half in self._deciding.values() if end <= dispatched]
        for half in lost:
            del self._deciding[half.queue_offset]
            if half.queue_offset < self._half_scanned:
                self.pending[half.queue_offset] = half
        if lost:
            self.pending = dict(sorted(self.pending.items()))

    def _scan_halves(self, count: int) -> int:
        units = self._store.units(HALF_TOPIC, 0, self._half_scanned, count)
        for physical_offset, size, _ in units:
            at = self._half_scanned
            if at not in self.named and at not in self._deciding:
                self.pending[at] = Half(at, physical_offset, size)
            self._half_scanned += 1
        return len(units)


def half_offsets(body: bytes) -> list[int]:
    """The half-queue offsets an op record names: one number (4.x), or several with commas (5.x)."""
    return [int(part) for part in body.split(b",") if part.isdigit()]
