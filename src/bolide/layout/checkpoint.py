"""StoreCheckpoint: six int64 at the head of a file of 4096 bytes, the rest zeros: RocketMQ's StoreCheckpoint."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from bolide.layout.errors import LayoutError

CHECKPOINT_SIZE: Final = 4096
_FIELDS: Final = struct.Struct(">6q")
_MARGIN_MS: Final = 3000


@dataclass(frozen=True)
class Checkpoint:
    """How far the files of a store were safe on disk. Timestamps are store times in ms, 0 when never noted.

    4.x leaves the last three fields 0.
    """

    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_physical_offset: int = 0
    logics_physical_offset: int = 0

    def encode(self) -> bytes:
        """The whole file."""
        head = _FIELDS.pack(
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_physical_offset,
            self.logics_physical_offset,
        )
        return head.ljust(CHECKPOINT_SIZE, b"\0")

    @property
    def min_timestamp(self) -> int:
        """Store time up to which log and queues were both safe, less Java's margin of 3 seconds; not below 0."""
        return max(0, min(self.physic_msg_timestamp, self.logics_msg_timestamp) - _MARGIN_MS)

    @property
    def min_timestamp_with_index(self) -> int:
        """The same with the index taken into account (messageIndexSafe)."""
        return min(self.min_timestamp, self.index_msg_timestamp)


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Read a checkpoint file; raises LayoutError when it is shorter than its six fields."""
    if len(data) < _FIELDS.size:
        raise LayoutError(f"a checkpoint has at least {_FIELDS.size} bytes, here are {len(data)}: delete the file")
    return Checkpoint(*_FIELDS.unpack_from(data))
