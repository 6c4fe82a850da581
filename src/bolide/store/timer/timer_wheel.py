"""The file `timerwheel`, and its future slots in memory: RocketMQ's TimerWheel.

Java maps the whole ring of 1,209,600 slots. Here, only non-empty slots are in memory, by time. Changed slots are
written when the timer's files are synced. As in Java, an expired slot remains in the file until another time uses its
position.
"""

from __future__ import annotations

import heapq
from typing import Final

from bolide.layout.timer import SLOT_SIZE, WHEEL_SLOTS, Slot, decode_slots, encode_slot, slot_at
from bolide.store.disk.files import Files

PIECE: Final = 1 << 20


class TimerWheel:
    """The slots of one store. Times are ms, and multiples of `precision`. The ring has two rounds of `round_slots`."""

    def __init__(self, files: Files, root: str, precision: int, round_slots: int = WHEEL_SLOTS) -> None:
        self.path = root + "/timerwheel"
        self.precision = precision
        self.round_slots = round_slots
        self.size = round_slots * 2 * SLOT_SIZE
        self.slots: dict[int, Slot] = {}
        self.count = 0
        """Number of scheduled messages minus the number of scheduled deletions."""
        self._files = files
        self._times: list[int] = []
        self._changed: dict[int, bytes] = {}

    def load(self, since: int) -> bool:
        """Read the slots of times at or after `since`. Return False if the file is missing or has another size."""
        if self._files.size(self.path) != self.size:
            return False
        handle = self._files.open(self.path)
        try:
            at = 0
            while at < self.size and (at := self._files.next_data(handle, at)) >= 0:
                at -= at % PIECE
                piece = self._files.read_at(handle, PIECE, at)
                if piece.count(0) < len(piece):
                    for slot in decode_slots(piece, at, self.precision, self.round_slots, since):
                        self._take(slot)
                at += PIECE
        finally:
            self._files.close(handle)
        return True

    def reset(self) -> None:
        """Remove all slots and delete the file; the next sync creates it again."""
        self._files.remove(self.path)
        self.slots.clear()
        self._times.clear()
        self._changed.clear()
        self.count = 0

    def get(self, time: int) -> Slot | None:
        """Return the slot of a time, or None if no message is scheduled for it."""
        return self.slots.get(time)

    def put(self, slot: Slot) -> None:
        """Set the slot of a time. The next `take_changes` includes it."""
        known = self.slots.get(int(slot.time))
        if known is not None:
            self.count -= int(known.count)
        self._take(slot)
        self._changed[int(slot_at(slot.time, self.precision, self.round_slots))] = encode_slot(slot, self.precision)

    def _take(self, slot: Slot) -> None:
        time = int(slot.time)
        if time not in self.slots:
            heapq.heappush(self._times, time)
        self.slots[time] = slot
        self.count += int(slot.count)

    def drop(self, time: int) -> None:
        """Remove the slot of an expired time from memory. It remains in the file, whose readers check the time."""
        slot = self.slots.pop(time, None)
        if slot is not None:
            self.count -= int(slot.count)

    def erase(self, time: int) -> None:
        """Like `drop`, but also in the file, because the units of the slot do not exist."""
        self.drop(time)
        self._changed[int(slot_at(time, self.precision, self.round_slots))] = bytes(SLOT_SIZE)

    def first_time(self) -> int:
        """Return the earliest time that has a slot, or -1 if there is none."""
        while self._times:
            if self._times[0] in self.slots:
                return self._times[0]
            heapq.heappop(self._times)
        return -1

    def count_at(self, time: int) -> int:
        """Return the number of messages scheduled in a slot, for flow control."""
        slot = self.slots.get(time)
        return int(slot.count) if slot is not None else 0

    @property
    def changed(self) -> bool:
        """Whether `take_changes` would return changes."""
        return bool(self._changed)

    def take_changes(self) -> list[tuple[int, list[bytes]]]:
        """Return the changes to write to the file, as (offset, consecutive pieces), and treat them as written.

        The caller must sync the timer log first, so that no slot in the file refers to a unit that a crash can lose. If
        a crash precedes the checkpoint, some slots refer to units after its end. Recovery follows their links back.
        """
        runs: list[tuple[int, list[bytes]]] = []
        end = -1
        for at in sorted(self._changed):
            if at != end:
                runs.append((at, []))
            runs[-1][1].append(self._changed[at])
            end = at + SLOT_SIZE
        self._changed = {}
        return runs
