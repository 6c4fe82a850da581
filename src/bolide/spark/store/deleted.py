"""Filters out records of deleted topics, which remain in a store's log until retention removes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bolide.layout.deleted_topics import NAME, parse_marks

if TYPE_CHECKING:
    from numpy.typing import NDArray

_compute: Any = pc  # its stubs lack plain values as scalars


def marks_of(log_file: str) -> dict[str, int]:
    """Return the deletion marks of the store of a CommitLog file. Raises `LayoutError` if their file is unreadable."""
    return _marks(Path(log_file).parent.parent)


def _marks(root: Path) -> dict[str, int]:
    try:
        data = (root / NAME).read_bytes()
    except FileNotFoundError:
        return {}
    return parse_marks(data)


def newest_deletion(root: Path, at: int) -> tuple[str, int] | None:
    """Return the topic that was deleted last, and the physical offset below which its records are skipped, at most
    `at`. Return None if there is none.

    An older copy of the store that lacks any deletion lacks this one.
    """
    for topic, offset in reversed(_marks(root).items()):
        return topic, min(offset, at)
    return None


def is_undone(root: Path, log_start: int, topic: str, below: int) -> bool:
    """Return whether the deletion of a topic's records below a physical offset is missing in the store."""
    return below > log_start and _marks(root).get(topic, 0) < below


def alive(topics: Any, physical_offsets: NDArray[Any], marks: dict[str, int]) -> NDArray[np.bool_]:
    """Return, for each record, whether its topic has not been deleted since."""
    kept = np.ones(len(physical_offsets), np.bool_)
    if not marks or not len(kept):
        return kept
    listed: Any = _compute.is_in(topics, pa.array(list(marks), pa.string()))
    rows = np.flatnonzero(listed.to_numpy(zero_copy_only=False))
    if len(rows):
        below = np.array([marks[name] for name in topics.take(pa.array(rows)).to_pylist()], np.int64)
        kept[rows] = physical_offsets[rows] >= below
    return kept
