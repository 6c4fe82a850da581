"""The files of a store folder: their names, and how far the log reaches according to queues and checkpoint.

The log alone does not distinguish a torn end from damage that reaches its last record. Queues and checkpoint do: a
record that one of them names was whole once, so if it is not whole now, it is lost.
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
"""Start, path and bytes of one file of a stream."""
_LARGEST: Final = 1 << 30
"""No record is larger; a unit with a larger size is invalid."""


def segment_files(folder: Path) -> list[Segment]:
    """Start, path and bytes of each file of a segmented stream, in order; other names are ignored."""
    if not folder.is_dir():
        return []
    names = sorted(path for path in folder.iterdir() if len(path.name) == 20 and path.name.isdecimal())
    return [(int(path.name), path, path.stat().st_size) for path in names]


def log_files(root: Path) -> list[Segment]:
    """The CommitLog files. If one seems to be missing, they are listed again: a broker may delete some meanwhile."""
    files = segment_files(root / "commitlog")
    return files if not any(gaps(files)) else segment_files(root / "commitlog")


def gaps(files: Sequence[Segment]) -> list[int]:
    """Bytes missing between each file and the next; below 0, surplus bytes of a file."""
    return [after[0] - start - size for (start, _, size), after in pairwise(files)]


@dataclass(frozen=True)
class RecordedEnd:
    """What a store's own files say about the end of its log."""

    named: int
    """Physical offset after the last record that queues or checkpoint name; 0 if they name none."""
    clean: bool
    """The store was stopped cleanly, so its last record must be complete."""


def log_end(root: Path) -> RecordedEnd:
    """Read it from a store. Call this before listing its log, so that no later record is expected."""
    clean = not (root / "abort").exists()
    named = 0
    for folder in (root / "consumequeue").glob("*/[0-9]*"):
        named = max(named, sum(last_unit(folder)))
    try:
        checkpoint = decode_checkpoint((root / "checkpoint").read_bytes())
        # Of the last dispatched record it has the first byte.
        named = max(named, checkpoint.logics_physical_offset + 1, checkpoint.confirm_physical_offset)
    except (FileNotFoundError, LayoutError):
        pass
    return RecordedEnd(named if named > 1 else 0, clean and not (root / "abort").exists())


def last_unit(folder: Path) -> tuple[int, int]:
    """Physical offset and size of a queue's last unit; (-1, 0) if it has no valid one."""
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
    """The folders of a topic's queues."""
    return sorted((root / "consumequeue" / topic).glob("[0-9]*"))


@dataclass(frozen=True)
class QueueOffsets:
    """The units of a whole queue: their physical offsets, and the queue offset after the last."""

    offsets: Ints
    end: int


def queue_offsets(folder: Path) -> QueueOffsets | None:
    """The units of a queue; None if its files have a hole, so that they do not name all its records."""
    files = segment_files(folder)
    if not files or any(gaps(files)):
        return None
    found = []
    end = 0
    for number, (start, path, size) in enumerate(files):
        units = unit_batch(path.read_bytes())
        sizes = units.column("size").to_numpy()
        used = np.flatnonzero(sizes)
        # Zeros are an end only after everything else.
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
    """Queue offset after the last unit of each queue of a topic, as Bolide's broker recorded it at its last stop."""
    try:
        noted = json.loads((root / "derived.json").read_bytes())["queues"].get(topic, {})
        return {queue: int(end) for queue, (_, end) in noted.items()}
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return {}
