"""The checkpoint of a store: six int64 at the start of a file of 4096 bytes. RocketMQ's StoreCheckpoint.

Bolide adds a mark and three fields in the same sector. Java's broker does not change them. All other bytes are zeros.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Final

from bolide.layout.errors import LayoutError

CHECKPOINT_SIZE: Final = 4096
_FIELDS: Final = struct.Struct(">6q")
_OURS: Final = struct.Struct(">8s3q")
_OUR_MARK: Final = b"BOLIDE 1"
_MARGIN_MS: Final = 3000


@dataclass(frozen=True)
class Checkpoint:
    """Sync progress of a store's files. Timestamps are store times in ms, 0 if never recorded.

    RocketMQ 4.x leaves the three offsets 0.
    """

    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_physical_offset: int = 0
    logics_physical_offset: int = 0
    run_id: int = 0
    """Id of the run of Bolide's broker that wrote `synced_end`, or 0 if Bolide did not write it."""
    synced_end: int = 0
    """Physical offset below which that run had synced the log."""
    held_offset: int = 0
    """Physical offset below which all members of the broker set have the log, or 0 if unknown or without a set."""

    def encode(self) -> bytes:
        """Return the content of the file."""
        head = _FIELDS.pack(
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_physical_offset,
            self.logics_physical_offset,
        )
        if self.run_id or self.held_offset:
            head += _OURS.pack(_OUR_MARK, self.run_id, self.synced_end, self.held_offset)
        return head.ljust(CHECKPOINT_SIZE, b"\0")

    @property
    def min_timestamp(self) -> int:
        """Store time up to which log and queues are both synced, less Java's margin of 3 seconds; not below 0."""
        return max(0, min(self.physic_msg_timestamp, self.logics_msg_timestamp) - _MARGIN_MS)

    @property
    def min_timestamp_with_index(self) -> int:
        """Like `min_timestamp`, but includes the index (messageIndexSafe)."""
        return min(self.min_timestamp, self.index_msg_timestamp)

    def offset_faults(self, end: int) -> list[tuple[int, str]]:
        """Return the position in the file, and a sentence, for each offset beyond `end`, the end of the log."""
        named = ((32, "confirm_physical_offset"), (40, "logics_physical_offset"))
        offsets = (self.confirm_physical_offset, self.logics_physical_offset)
        return [
            (position, f"its {name} {offset} is beyond the log, which ends at {end}")
            for (position, name), offset in zip(named, offsets, strict=True)
            if offset > end
        ]

    def time_faults(self, newest: int) -> list[tuple[int, str]]:
        """Return the position in the file, and a sentence, for each time after `newest`, the log's newest store time.

        After a crash, a broker does not redispatch records older than these times.
        """
        named = ((0, "physic_msg_timestamp"), (8, "logics_msg_timestamp"), (16, "index_msg_timestamp"))
        times = (self.physic_msg_timestamp, self.logics_msg_timestamp, self.index_msg_timestamp)
        return [
            (position, f"its {name} {time} is later than every record of the log, the newest is of {newest}")
            for (position, name), time in zip(named, times, strict=True)
            if time > newest
        ]


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Decode a checkpoint file. Raises LayoutError if it is shorter than Java's six fields."""
    if len(data) < _FIELDS.size:
        raise LayoutError(f"a checkpoint has at least {_FIELDS.size} bytes, this one has {len(data)}: delete the file")
    checkpoint = Checkpoint(*_FIELDS.unpack_from(data))
    if len(data) >= _FIELDS.size + _OURS.size:
        mark, run_id, synced_end, held_offset = _OURS.unpack_from(data, _FIELDS.size)
        if mark == _OUR_MARK:
            return replace(checkpoint, run_id=run_id, synced_end=synced_end, held_offset=held_offset)
    return checkpoint
