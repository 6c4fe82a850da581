"""The files of a store folder: their names, and the end of the log according to queues and checkpoint.

The log alone does not distinguish a torn end from damage that reaches its last record. Queues and checkpoint do: a
record that they refer to was complete once, so if it is incomplete now, it is lost.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from bolide.layout.checkpoint import decode_checkpoint
from bolide.layout.columns import unit_batch
from bolide.layout.errors import LayoutError
from bolide.layout.queue_unit import PRE_BLANK_SIZE, UNIT_SIZE
from bolide.layout.record import MIN_RECORD_SIZE

if TYPE_CHECKING:
    from bolide.layout.property_columns import Ints

Segment = tuple[int, Path, int]
"""Start, path and size in bytes of a file of a segmented stream."""
_LARGEST: Final = 1 << 30
"""Maximum size of a record in bytes. A unit with a larger size is invalid."""


def segment_files(folder: Path) -> list[Segment]:
    """Return the files of a segmented stream, in order. Ignores other names."""
    if not folder.is_dir():
        return []
    names = sorted(path for path in folder.iterdir() if len(path.name) == 20 and path.name.isdecimal())
    return [(int(path.name), path, path.stat().st_size) for path in names]


def log_files(root: Path) -> list[Segment]:
    """Return the CommitLog files. Lists them a second time if one seems to be missing, because a broker may delete
    files in the meantime."""
    files = segment_files(root / "commitlog")
    return files if not any(gaps(files)) else segment_files(root / "commitlog")


def gaps(files: Sequence[Segment]) -> list[int]:
    """Return the number of bytes missing between each file and the next. Below 0, surplus bytes of a file."""
    return [after[0] - start - size for (start, _, size), after in pairwise(files)]


@dataclass(frozen=True)
class RecordedEnd:
    """The end of a log according to the other files of the store."""

    named: int
    """Physical offset after the last record that queues or checkpoint refer to, or 0 without one."""
    clean: bool
    """Whether the store was stopped cleanly, so that its last record must be complete."""


def log_end(root: Path) -> RecordedEnd:
    """Read the recorded end of a store. Call this before listing its log, so that no later record is expected."""
    clean = not (root / "abort").exists()
    named = 0
    for folder in (root / "consumequeue").glob("*/[0-9]*"):
        named = max(named, sum(last_unit(folder)))
    try:
        checkpoint = decode_checkpoint((root / "checkpoint").read_bytes())
        # It contains the first byte of the last dispatched record.
        named = max(named, checkpoint.logics_physical_offset + 1, checkpoint.confirm_physical_offset)
    except (FileNotFoundError, LayoutError):
        pass
    return RecordedEnd(named if named > 1 else 0, clean and not (root / "abort").exists())


def last_unit(folder: Path) -> tuple[int, int]:
    """Return the physical offset and size of a queue's last valid unit, or (-1, 0) without one."""
    for _, path, size in reversed(segment_files(folder)):
        try:
            file = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue  # deleted since it was listed
        try:
            low, high = 0, size // UNIT_SIZE
            while low < high:
                middle = (low + high) // 2
                low, high = (middle + 1, high) if _unit(file, middle)[1] else (low, middle)
            if not low:
                continue
            offset, length = _unit(file, low - 1)
            before, before_size = _unit(file, low - 2) if low > 1 else (0, 0)
        finally:
            os.close(file)
        if before_size == PRE_BLANK_SIZE:
            before = before_size = 0
        believed = MIN_RECORD_SIZE <= length <= _LARGEST and before_size >= 0 and 0 <= before <= offset - before_size
        return (offset, length) if believed else (-1, 0)
    return -1, 0


def _unit(file: int, number: int) -> tuple[int, int]:
    data = os.pread(file, 12, number * UNIT_SIZE)
    return int.from_bytes(data[:8], "big", signed=True), int.from_bytes(data[8:12], "big", signed=True)


def queue_folders(root: Path, topic: str) -> list[Path]:
    """Return the folders of a topic's queues."""
    return sorted((root / "consumequeue" / topic).glob("[0-9]*"))


@dataclass(frozen=True)
class QueueOffsets:
    """The physical offsets of all units of a queue, and the queue offset after the last."""

    offsets: Ints
    end: int


def queue_offsets(folder: Path) -> QueueOffsets | None:
    """Return the units of a queue, or None if its files have a hole, so that units are missing."""
    files = segment_files(folder)
    if not files or any(gaps(files)):
        return None
    found = []
    end = 0
    for number, (start, path, size) in enumerate(files):
        units = unit_batch(path.read_bytes())
        sizes = units.column("size").to_numpy()
        used = np.flatnonzero(sizes)
        # Zeros are the end only if no other bytes follow.
        if size % UNIT_SIZE or not len(used) or used[-1] >= len(used):
            return None
        if number + 1 < len(files) and len(used) < len(sizes):
            return None
        real = used[sizes[used] != PRE_BLANK_SIZE]
        found.append(units.column("physical_offset").to_numpy()[real])
        end = start // UNIT_SIZE + len(used)
    offsets: Ints = np.concatenate(found)
    return QueueOffsets(offsets, end) if bool((np.diff(offsets) > 0).all()) else None


def kept_ends(root: Path, topic: str) -> dict[str, int]:
    """Return the end offset of each queue of a topic that Bolide's broker recorded at its last stop."""
    try:
        noted = json.loads((root / "derived.json").read_bytes())["queues"].get(topic, {})
        return {queue: int(end) for queue, (_, end) in noted.items()}
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return {}
