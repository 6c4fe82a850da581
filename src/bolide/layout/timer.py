"""Format and rules of the timer wheel, for any delay: RocketMQ's TimerWheel, TimerLog and TimerMessageStore.

A message is in the slot of its delivery time. The file `timerwheel` is a ring of slots. A slot points to the newest
unit of its time in the stream `timerlog/`. A unit points to the previous unit and to the record in the commit log. All
integers are big-endian, and times are ms since the epoch.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from bolide.layout.record import BLANK_MAGIC

WHEEL_SLOTS: Final = 7 * 24 * 3600
"""Number of slots per round, for any precision. The file contains two rounds."""
SLOT_SIZE: Final = 32
SPARE_SLOTS: Final = 60
"""Number of slots per round that stay unused, so that the oldest and the newest time never share a slot."""

UNIT_SIZE: Final = 52
BLANK_SIZE: Final = 16
"""Bytes reserved for the blank at the end of a file. A unit fits if UNIT_SIZE + BLANK_SIZE bytes are left."""
MAGIC_DEFAULT: Final = 1
MAGIC_ROLL: Final = 2
MAGIC_DELETE: Final = 4
_KNOWN_MAGIC: Final = 15
NOWHERE: Final = -1
"""Position of a missing unit."""

_PRECISIONS: Final = (1000, 500, 200, 100)


@final
class Slot:
    """The units of one time: the positions of the first and the newest, and the number of their messages."""

    def __init__(self, time: i64, first: i64, last: i64, count: i64) -> None:
        self.time: i64 = time
        self.first: i64 = first
        self.last: i64 = last
        self.count: i64 = count
        """Number of messages minus number of deletes, for flow control. An int32 in the file."""


@final
class Unit:
    """One entry of the timer log: a pending message, or a pending request to delete a message."""

    def __init__(
        self,
        previous: i64,
        magic: i64,
        enqueue_time: i64,
        delay: i64,
        physical_offset: i64,
        size: i64,
        topic_hash: i64,
    ) -> None:
        self.previous: i64 = previous
        """Position of the previous unit of the same slot, or NOWHERE."""
        self.magic: i64 = magic
        self.enqueue_time: i64 = enqueue_time
        self.delay: i64 = delay
        self.physical_offset: i64 = physical_offset
        self.size: i64 = size
        self.topic_hash: i64 = topic_hash

    @property
    def time(self) -> i64:
        """Time of the slot."""
        return self.enqueue_time + self.delay

    @property
    def rolls(self) -> bool:
        """Whether the delivery time is beyond the window, so that the message goes back to the timer topic."""
        return self.magic & MAGIC_ROLL != 0

    @property
    def deletes(self) -> bool:
        """Whether this is a delete in its final slot."""
        return self.magic & (MAGIC_DELETE | MAGIC_ROLL) == MAGIC_DELETE

    @property
    def worth(self) -> i64:
        """Change of the slot's count caused by this unit."""
        return -1 if self.magic & MAGIC_DELETE != 0 else 1


def wheel_precision(wanted: int) -> int:
    """Return the slot width in ms for a setting: the greatest of Java's four widths up to it, at least 100."""
    for precision in _PRECISIONS:
        if wanted >= precision:
            return precision
    return _PRECISIONS[-1]


def roll_window(wanted: int, round_slots: int = WHEEL_SLOTS) -> int:
    """Return the maximum number of slots that a message may wait before it rolls; the whole wheel for an invalid
    setting."""
    most = round_slots - SPARE_SLOTS
    return most if wanted > most or wanted < 2 else wanted


def floor_time(time: i64, precision: i64) -> i64:
    """Return the time of a time's slot: `time` rounded down to a multiple of `precision`."""
    return time // precision * precision


def out_time(deliver_at: i64, precision: i64) -> i64:
    """Return TIMER_OUT_MS of a delivery time: the slot that has ended by then, so that no message is early."""
    if deliver_at % precision == 0:
        return deliver_at - precision
    return floor_time(deliver_at, precision)


def rolled_time(out: i64, write_time: i64, window: i64, precision: i64) -> i64:
    """Return the slot for the next roll of a message due at `out`; `out` itself if it is within the window."""
    beyond = out - write_time - window * precision
    if beyond < 0:
        return out
    # A message slightly beyond the window rolls half way, so that the last wait is not short.
    slots: i64 = window // 2 if beyond < window // 3 * precision else window
    return write_time + slots * precision


def slot_at(time: i64, precision: i64, round_slots: i64) -> i64:
    """Return the byte offset of a time's slot in the file."""
    return time // precision % (round_slots * 2) * SLOT_SIZE


def encode_slot(slot: Slot, precision: i64) -> bytes:
    """Return the 32 bytes of a slot. They contain its time as the number of slots since the epoch."""
    w = BytesWriter()
    write_i64_be(w, slot.time // precision)
    write_i64_be(w, slot.first)
    write_i64_be(w, slot.last)
    write_i32_be(w, i32(slot.count))
    write_i32_be(w, 0)
    return w.getvalue()


def decode_slots(data: bytes, at: i64, precision: i64, round_slots: i64, since: i64) -> list[Slot]:
    """Return the slots in a part of the wheel at offset `at`, for times not before `since`.

    Omits slots whose time does not belong to their position.
    """
    found: list[Slot] = []
    position: i64 = 0
    while position + SLOT_SIZE <= len(data):
        time = read_i64_be(data, position) * precision
        if time >= since and time > 0 and slot_at(time, precision, round_slots) == at + position:
            first = read_i64_be(data, position + 8)
            found.append(Slot(time, first, read_i64_be(data, position + 16), i64(read_i32_be(data, position + 24))))
        position += SLOT_SIZE
    return found


def encode_unit(
    previous: i64,
    magic: i64,
    enqueue_time: i64,
    slot_time: i64,
    physical_offset: i64,
    size: i64,
    topic_hash: i64,
) -> bytes:
    """Return the 52 bytes of a unit."""
    w = BytesWriter()
    write_i32_be(w, UNIT_SIZE)
    write_i64_be(w, previous)
    write_i32_be(w, i32(magic))
    write_i64_be(w, enqueue_time)
    write_i32_be(w, i32(slot_time - enqueue_time))
    write_i64_be(w, physical_offset)
    write_i32_be(w, i32(size))
    write_i32_be(w, i32(topic_hash))
    write_i64_be(w, 0)
    return w.getvalue()


def decode_unit(data: bytes, at: i64) -> Unit | None:
    """Return the unit at this position, or None for a blank, for zeros, and for an invalid unit."""
    if at < 0 or at + UNIT_SIZE > len(data) or read_i32_be(data, at) != UNIT_SIZE:
        return None
    magic = i64(read_i32_be(data, at + 12))
    if magic <= 0 or magic > _KNOWN_MAGIC:
        return None
    return Unit(
        read_i64_be(data, at + 4),
        magic,
        read_i64_be(data, at + 16),
        i64(read_i32_be(data, at + 24)),
        read_i64_be(data, at + 28),
        i64(read_i32_be(data, at + 36)),
        i64(read_i32_be(data, at + 40)),
    )


def encode_blank(remaining: i64) -> bytes:
    """Return the blank for the last `remaining` bytes of a file, which are too few for a unit; the rest stays zero."""
    w = BytesWriter()
    write_i32_be(w, i32(remaining))
    write_i64_be(w, 0)
    write_i32_be(w, i32(BLANK_MAGIC))
    return w.getvalue()


def is_blank(data: bytes, at: i64) -> bool:
    """Whether a blank starts at this position."""
    return at + BLANK_SIZE <= len(data) and read_i32_be(data, at + 12) == BLANK_MAGIC


def last_unit_at(file_size: int) -> int:
    """Return the offset of the last unit in a full file."""
    return (file_size - BLANK_SIZE) // UNIT_SIZE * UNIT_SIZE - UNIT_SIZE
