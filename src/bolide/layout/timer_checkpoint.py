"""The file `config/timercheck`, which records the timer's progress at its last sync: RocketMQ's TimerCheckpoint.

The file has 4096 bytes and starts with Java's seven int64. Bolide adds a mark after them. A checkpoint with the mark
describes files that were synced before it was written. Without the mark, the files may be a second older or newer.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

TIMER_CHECKPOINT_SIZE: Final = 4096
_FIELDS: Final = struct.Struct(">7q")
_MARK: Final = struct.Struct(">8s4q")
_MARK_AT: Final = 64
_OURS: Final = b"bolide-1"
_UNVERSIONED: Final = 32


@dataclass(frozen=True)
class TimerCheckpoint:
    """Slots before `read_time` (ms) are delivered; messages of the timer queue before `queue_offset` have a unit in
    the timer log before `log_end`, or are delivered."""

    read_time: int = 0
    log_end: int = 0
    queue_offset: int = 0
    state_version: int = 0
    timestamp: int = 0
    counter: int = 0
    precision: int = 0
    """Width of a slot in ms, or 0 if Java wrote the checkpoint."""

    @property
    def ours(self) -> bool:
        """Whether Bolide wrote the checkpoint, and therefore had synced the files that it describes."""
        return self.precision > 0

    def encode_body(self) -> bytes:
        """Return the 56 bytes of Java's fields, the response to GET_TIMER_CHECK_POINT (60)."""
        # Java stores its own queue offset and its master's; a master writes the same number twice.
        return _FIELDS.pack(
            self.read_time,
            self.log_end,
            self.queue_offset,
            self.queue_offset,
            self.state_version,
            self.timestamp,
            self.counter,
        )

    def encode(self) -> bytes:
        """Return the content of the file. All fields are in its first sector, so that no crash can tear them."""
        head = self.encode_body().ljust(_MARK_AT, b"\0")
        mark = _MARK.pack(_OURS, self.precision, self.read_time, self.log_end, self.queue_offset)
        return (head + mark).ljust(TIMER_CHECKPOINT_SIZE, b"\0")


def decode_timer_answer(body: bytes) -> TimerCheckpoint | None:
    """Decode the response to GET_TIMER_CHECK_POINT (60), with or without a version, or None if it is invalid."""
    return decode_timer_checkpoint(body.ljust(_FIELDS.size, b"\0")) if len(body) >= _UNVERSIONED else None


def decode_timer_checkpoint(data: bytes | None) -> TimerCheckpoint:
    """Decode the file; an empty or torn file means that the timer has not started."""
    if data is None or len(data) < _FIELDS.size:
        return TimerCheckpoint()
    read_time, log_end, own, masters, state_version, timestamp, counter = _FIELDS.unpack_from(data)
    precision = 0
    if len(data) >= _MARK_AT + _MARK.size:
        # Java writes only its fields and not the bytes after them, so the mark is valid only if it repeats the fields.
        name, width, *repeated = _MARK.unpack_from(data, _MARK_AT)
        if name == _OURS and repeated == [read_time, log_end, min(own, masters)]:
            precision = width
    return TimerCheckpoint(read_time, log_end, min(own, masters), state_version, timestamp, counter, precision)
