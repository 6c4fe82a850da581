"""Half messages of transactions that are not decided yet, and how far their two queues are done with.

A half message waits on RMQ_SYS_TRANS_HALF_TOPIC until an op record on RMQ_SYS_TRANS_OP_HALF_TOPIC names its offset:
then its transaction is decided. Progress in both queues is kept as consumer offsets of CID_RMQ_SYS_TRANS, where a Java
broker looks for it as well. The table is rebuilt from the queues at every start (protocol/behaviour.md 4).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from bolide.broker.consumer_offsets import ConsumerOffsets
from bolide.broker.names import HALF_TOPIC, OP_HALF_TOPIC
from bolide.store.message_store import MessageStore

GROUP = "CID_RMQ_SYS_TRANS"
SCAN_AT_ONCE = 256


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
        self._decided: set[int] = set()
        self._ops: deque[tuple[int, int]] = deque()
        """(offset in the op queue, greatest half offset it names), oldest first."""
        self._half_scanned = -1
        self._op_scanned = -1

    def is_decided(self, queue_offset: int) -> bool:
        """True when this half message was committed, rolled back, renewed or given up."""
        if queue_offset in self._decided:
            return True
        return self._half_scanned >= 0 and queue_offset < self._half_scanned and queue_offset not in self.pending

    def decide(self, queue_offset: int) -> None:
        """A transaction is decided; the op record for it is being written in the same turn."""
        self._decided.add(queue_offset)
        self.pending.pop(queue_offset, None)

    def scan(self, budget: int) -> bool:
        """Read what is new in both queues, ops first, at most `budget` units; True when nothing is left to read."""
        if self._op_scanned < 0:
            self._begin()
        left = budget
        while left > 0 and (read := self._scan_ops(min(left, SCAN_AT_ONCE))):
            left -= read
        while left > 0 and (read := self._scan_halves(min(left, SCAN_AT_ONCE))):
            left -= read
        return left > 0

    def progress(self, now: int) -> None:
        """Store how far both queues are done with, as a consumer group would."""
        if self._half_scanned < 0:
            return
        done = min(self.pending, default=self._half_scanned)
        self._decided = {offset for offset in self._decided if offset >= done}
        while self._ops and self._ops[0][1] < done:
            self._ops.popleft()
        self._offsets.commit(GROUP, HALF_TOPIC, 0, done, now)
        self._offsets.commit(GROUP, OP_HALF_TOPIC, 0, self._ops[0][0] if self._ops else self._op_scanned, now)

    def _begin(self) -> None:
        low = self._store.min_queue_offset(HALF_TOPIC, 0)
        self._half_scanned = max(self._offsets.query(GROUP, HALF_TOPIC, 0), low, 0)
        low = self._store.min_queue_offset(OP_HALF_TOPIC, 0)
        self._op_scanned = max(self._offsets.query(GROUP, OP_HALF_TOPIC, 0), low, 0)

    def _scan_ops(self, count: int) -> int:
        units = self._store.units(OP_HALF_TOPIC, 0, self._op_scanned, count)
        for physical_offset, size, _ in units:
            record = self._store.record_at(physical_offset, size)
            named = [] if record is None else half_offsets(record.body)
            for offset in named:
                self.decide(offset)
            if named:
                self._ops.append((self._op_scanned, max(named)))
            self._op_scanned += 1
        return len(units)

    def _scan_halves(self, count: int) -> int:
        units = self._store.units(HALF_TOPIC, 0, self._half_scanned, count)
        for physical_offset, size, _ in units:
            if self._half_scanned not in self._decided:
                self.pending[self._half_scanned] = Half(self._half_scanned, physical_offset, size)
            self._half_scanned += 1
        return len(units)


def half_offsets(body: bytes) -> list[int]:
    """The half-queue offsets an op record names: one number (4.x), or several with commas (5.x)."""
    return [int(part) for part in body.split(b",") if part.isdigit()]
