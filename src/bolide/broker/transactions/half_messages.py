"""Pending half messages of transactions, and the progress of their two queues.

A half message waits in RMQ_SYS_TRANS_HALF_TOPIC until an op record in RMQ_SYS_TRANS_OP_HALF_TOPIC names its offset: its
transaction is then decided. Progress in both queues is stored as consumer offsets of CID_RMQ_SYS_TRANS, where a Java
broker also looks for it. The table is rebuilt from the queues at every start (docs/protocol/behaviour.md 4).

A new decision is valid immediately, and is undone if the store rolls back its op record. Progress follows the records
read from both queues, and is stored only once that part of the log survives a power failure: progress ahead of the log
would skip half messages that get those offsets later. If the stored progress is ahead anyway (an asynchronous flush and
a power failure under another broker, a log from a backup), it is ignored.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from bolide.broker.cursor.queue_cursor import UNITS_AT_ONCE, QueueCursor
from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.broker.transactions.half_records import check_times, is_same_message, message_key, real_place
from bolide.broker.transactions.named_offsets import NamedOffsets
from bolide.broker.transactions.renewals import Half, Renewals
from bolide.layout.message_properties import stored_properties
from bolide.layout.names import (
    HALF_TOPIC,
    OP_HALF_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANSACTION_GROUP,
)
from bolide.layout.record import Record
from bolide.layout.sysflag import TRANSACTION_COMMIT, TRANSACTION_MASK
from bolide.store.errors import RecordDamaged
from bolide.store.message_store import MessageStore

EVERYTHING: Final = 1 << 40
MAX_NAMED: Final = 1_000_000
"""Limit of `_named`. Above it, op records of half messages from before the start are not recorded."""
LONGEST_NUMBER: Final = 19
"""Maximum number of digits of a half offset in an op record."""
OWED: Final = -1


class Decision(Struct, frozen=True):
    """A transaction decided by this broker whose op record has not been read. `op_end`: end of that record in the log.

    `certain`: the log contains the decision and lacks only the op record. `op_end` is OWED until it is written.
    """

    half: Half
    op_end: int
    certain: bool = False


class Progress(Struct, frozen=True):
    """Progress of both queues; valid for a log that reaches `log_end`."""

    log_end: int
    half_offset: int
    op_offset: int


class HalfMessages:
    """Pending half messages of one broker, by their offset in the half queue."""

    def __init__(self, store: MessageStore, offsets: ConsumerOffsets) -> None:
        self._store = store
        self._offsets = offsets
        store.on_taken_back.append(self._taken_back)
        self.forget()

    def forget(self) -> None:
        """Clear all state. The next scan starts at the stored progress."""
        self.pending: dict[int, Half] = {}
        """Pending half messages, in the order of offsets."""
        self._named: set[int] = set()
        """Half messages from before `_began` that a read op record names; later named ones leave `pending`."""
        self._deciding: dict[int, Decision] = {}
        self._renewals = Renewals()
        self._known: dict[tuple[str, int, bytes], Half] = {}
        """Half messages pending at the start that had been checked; their older records may still be named."""
        self._ops = NamedOffsets()
        self._began = -1
        self._half_queue = QueueCursor(self._store, HALF_TOPIC, 0, None)
        self._op_queue = QueueCursor(self._store, OP_HALF_TOPIC, 0, None)
        self._read_once = False
        self._next: Progress | None = None
        """Progress that waits for the disk."""
        self._recovered_end = int(self._store.written_offset)
        self._seen: dict[tuple[str, int, bytes], int] | None = None
        """While progress that was ignored is rebuilt: the newest half record of each message."""

    def catch_up(self) -> None:
        """Read both queues to their ends, once per start. Before that, no half message is known to be decided."""
        if not self._read_once:
            self.scan(EVERYTHING)

    def undecided(self, record: Record) -> Half | None:
        """Return the pending half message of this record, after renewals since the start, or None if it has ended.

        The half queue must contain `record`.
        """
        self.catch_up()
        half = self._newest(record)
        return None if self.is_decided(half.queue_offset) else half

    def _newest(self, record: Record) -> Half:
        half = Half(record.queue_offset, record.physical_offset, record.total_size)
        if half.queue_offset not in self._renewals.newest and self._known:
            known = self._known.get(message_key(record))
            if known is not None and known.queue_offset > half.queue_offset:
                half = known
        return self._renewals.newest.get(half.queue_offset, half)

    def is_decided(self, queue_offset: int) -> bool:
        """Return whether this half message was committed, rolled back, renewed or abandoned."""
        if queue_offset in self._deciding:
            return True
        return queue_offset < self._half_queue.offset and queue_offset not in self.pending

    @property
    def open_count(self) -> int:
        """Number of pending half messages. Unread ones are counted as pending."""
        unread = self._half_queue.end - self._half_queue.offset if self._began >= 0 else 0
        return len(self.pending) + max(unread, 0)

    @property
    def remembered(self) -> int:
        """Number of entries in memory for ended half messages."""
        return len(self._ops) + len(self._renewals) + len(self._deciding) + len(self._named)

    def was_named(self, queue_offset: int) -> bool:
        """Return whether a read op record names this half message, which may be older than the start."""
        if queue_offset < self._began:
            return queue_offset in self._named
        return queue_offset < self._half_queue.offset and queue_offset not in self.pending

    def decision_end(self, record: Record) -> int:
        """Return the end of the unread op record of this broker that decides this record's transaction, else 0."""
        decision = self._deciding.get(self._newest(record).queue_offset)
        return 0 if decision is None else max(decision.op_end, 0)

    def decide(self, half: Half, op_end: int) -> None:
        """Record that an op record appended in this turn, which ends at `op_end`, decides a transaction."""
        self.pending.pop(half.queue_offset, None)
        before = self._deciding.get(half.queue_offset)
        self._deciding[half.queue_offset] = Decision(half, op_end, before is not None and before.certain)

    def leave(self, queue_offset: int) -> None:
        """Treat a half message as decided without an op record, because another broker set has it and checks it."""
        self.pending.pop(queue_offset, None)

    def renew(self, old: Half, new: Half, op_end: int) -> None:
        """Record that a half message was stored again, in one append with the op record of the old one. A decision
        about the old record now applies to the new one."""
        self.decide(old, op_end)
        self._renewals.follow(old, new)

    def owed(self) -> list[Half]:
        """Return half messages that the log has decided and whose op record is missing."""
        return [decision.half for decision in self._deciding.values() if decision.op_end == OWED]

    def scan(self, budget: int) -> bool:
        """Read new records of both queues, about `budget` units at most. Return whether none is left to read."""
        if self._began < 0:
            self._begin()
        log_end = int(self._store.dispatched_offset)
        left = budget
        while left > 0 and (read := self._scan_some(min(left, UNITS_AT_ONCE))):
            left -= read
        if left <= 0:
            return False
        if not self._read_once:
            self._read_once = True
            self._seen = None
            self._look_at_open()
        if self._next is None:
            self._next = self._done(log_end)
        return True

    def progress(self, now: int) -> None:
        """Store the progress of both queues like a consumer group, once the log is on disk up to it."""
        reached = self._next
        if reached is None or reached.log_end > self._store.flushed_offset:
            return
        self._next = None
        done = reached.half_offset
        if self._known:
            newest = self._renewals.newest
            self._known = {
                key: half
                for key, half in self._known.items()
                if newest.get(half.queue_offset, half).queue_offset >= done
            }
        self._ops.drop_before(done)
        self._offsets.commit(TRANSACTION_GROUP, HALF_TOPIC, 0, done, now)
        self._offsets.commit(TRANSACTION_GROUP, OP_HALF_TOPIC, 0, reached.op_offset, now)

    def _done(self, log_end: int) -> Progress:
        done = next(iter(self.pending), self._half_queue.offset)
        if self._deciding:
            done = min(done, min(self._deciding))
        return Progress(log_end, done, self._ops.first(done, self._op_queue.offset))

    # -- the start

    def cut(self, now: int) -> bool:
        """Drop progress that is ahead of the log. Return whether it was. The caller must then write the file before any
        record is stored: the next start finds longer queues and would accept it."""
        half, op = self._stored()
        if not self._is_ahead(half, op):
            return False
        self._offsets.commit(TRANSACTION_GROUP, HALF_TOPIC, 0, -1, now)
        self._offsets.commit(TRANSACTION_GROUP, OP_HALF_TOPIC, 0, -1, now)
        return True

    def _stored(self) -> tuple[int, int]:
        query = self._offsets.query
        return query(TRANSACTION_GROUP, HALF_TOPIC, 0), query(TRANSACTION_GROUP, OP_HALF_TOPIC, 0)

    def _is_ahead(self, half: int, op: int) -> bool:
        """Whether offsets below this progress may contain other half messages, or have lost their op records."""
        return half > self._half_queue.end or op > self._op_queue.end

    def _begin(self) -> None:
        half, op = self._stored()
        if half < 0 or self._is_ahead(half, op):
            # Only the log shows which half messages are decided.
            self._seen = {}
            half = op = 0
        self._began = self._half_queue.move_to(half)
        self._op_queue.move_to(op)

    def _look_at_open(self) -> None:
        """At startup: find the message of each pending half message."""
        last: Record | None = None
        if self.pending:
            places = [(HALF_TOPIC, 0), (TRANS_CHECK_MAX_TIME_TOPIC, 0), (TIMER_TOPIC, 0)]
            places.extend((SCHEDULE_TOPIC, queue_id) for queue_id in self._store.queue_ids(SCHEDULE_TOPIC))
            last = self._ends_the_log(places)
        if last is not None and last.topic == HALF_TOPIC and last.properties.endswith(b"\0"):
            # The power failed while this record was written, and its checksum covers only its body. It was not on disk
            # yet, and the half message that it would have renewed is still pending.
            self._owe(Half(last.queue_offset, last.physical_offset, last.total_size))
        for half in list(self.pending.values()):
            record = self._store.record_at(half.physical_offset, half.size)
            if record is None:
                continue
            place = real_place(stored_properties(record.properties))
            ends = last or (None if place is None else self._ends_the_log([place]))
            if ends is not None and self._is_torn(half, record, ends):
                continue
            if check_times(record) > 0:
                self._known[message_key(record)] = half

    def _is_torn(self, half: Half, record: Record, last: Record) -> bool:
        """Return whether a power failure kept the last record of the log, which ends this half message, and destroyed
        the op record of the same append. The op record is then missing: without it the transaction could end twice."""
        renewed = last.topic == HALF_TOPIC and check_times(last) > check_times(record)
        committed = last.topic != HALF_TOPIC and last.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
        if not committed and not renewed and last.topic != TRANS_CHECK_MAX_TIME_TOPIC:
            return False
        if not is_same_message(record, last):
            return False
        self._owe(half)
        if renewed:
            self._renewals.follow(half, Half(last.queue_offset, last.physical_offset, last.total_size))
        return True

    def _owe(self, half: Half) -> None:
        self.pending.pop(half.queue_offset, None)
        self._deciding[half.queue_offset] = Decision(half, OWED, certain=True)

    def _ends_the_log(self, places: list[tuple[str, int]]) -> Record | None:
        for topic, queue_id in places:
            newest = int(self._store.max_queue_offset(topic, queue_id)) - 1
            units = self._store.units(topic, queue_id, newest, 1) if newest >= 0 else []
            if units and units[0][0] + units[0][1] == self._recovered_end:
                return self._store.record_at(units[0][0], units[0][1])
        return None

    # -- reading

    def _scan_some(self, count: int) -> int:
        """Read up to `count` units of each queue in log order. An op record follows the half messages it names, so only
        pending ones stay in memory, and other names have no effect."""
        ops, halves = self._op_queue.places(count), self._half_queue.places(count)
        op = half = 0
        while op < len(ops) or half < len(halves):
            if (op == len(ops) and self._op_queue.more) or (half == len(halves) and self._half_queue.more):
                break  # more of this queue may precede the rest of the other one
            if op == len(ops) or (half < len(halves) and halves[half][0] < ops[op][0]):
                self._read_half(*halves[half])
                half += 1
            else:
                self._read_op(*ops[op])
                op += 1
        return op + half

    def _read_op(self, physical_offset: int, size: int) -> None:
        named: list[int] = []
        try:
            record = self._store.intact_record(physical_offset, size)
            named = [] if record is None else half_offsets(record.body)
        except RecordDamaged as error:  # the half messages that it names stay pending, and their producers are asked
            self._store.maintenance.problem = f"an op record of transactions ends nothing: {error}"
        offsets = [offset for offset in named if offset < self._half_queue.offset]
        for offset in offsets:
            self._end(offset)
        if offsets:
            self._ops.add(self._op_queue.offset, max(offsets))
        self._op_queue.offset += 1

    def _read_half(self, physical_offset: int, size: int) -> None:
        at = self._half_queue.offset
        record = self._store.record_at(physical_offset, size) if self._seen is not None else None
        if at not in self._deciding:
            self.pending[at] = Half(at, physical_offset, size)
        if record is not None and self._seen is not None:
            self._note(at, record, self._seen)
        self._half_queue.offset += 1

    def _end(self, offset: int) -> None:
        """Drop a half message whose op record was read. Nothing else about it is stored, so that one undecided message
        does not retain all later ones in memory."""
        self.pending.pop(offset, None)
        self._deciding.pop(offset, None)
        self._renewals.end(offset)
        if offset < self._began and len(self._named) < MAX_NAMED:
            self._named.add(offset)

    def _note(self, at: int, record: Record, seen: dict[tuple[str, int, bytes], int]) -> None:
        """Drop the older record of a renewed half message. Java writes no op record for it: only its progress shows
        that the older record is done."""
        if record.properties.endswith(b"\0"):
            return  # torn: see `_look_at_open`
        key = message_key(record)
        if check_times(record) > 0 and key in seen:
            self.pending.pop(seen[key], None)
        seen[key] = at

    def _taken_back(self, written: int) -> None:
        """Called after a failed write: its decisions become pending again, and renewals are undone."""
        back = False
        for at, decision in list(self._deciding.items()):
            if decision.op_end <= written:
                continue
            self._renewals.take_back(decision.half, written)
            if decision.certain:
                self._deciding[at] = Decision(decision.half, OWED, certain=True)
                continue
            del self._deciding[at]
            if at < self._half_queue.offset:
                self.pending[at] = decision.half
                back = True
        if back:
            self.pending = dict(sorted(self.pending.items()))


def half_offsets(body: bytes) -> list[int]:
    """Return the half-queue offsets that an op record names: one number (4.x), or several with commas (5.x)."""
    return [int(part) for part in body.split(b",") if part.isdigit() and len(part) <= LONGEST_NUMBER]
