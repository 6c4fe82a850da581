"""From a store folder to tasks: which stretches of which CommitLog files a read needs. Reads names and a few bytes.

Time: records of a log are stored in the order of time, so a file's first record bounds the file before it. Topic: the
topic's ConsumeQueue units say where its records lie; only what dispatch has passed is left out by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from bolide.layout.columns import unit_batch
from bolide.layout.queue_unit import PRE_BLANK_SIZE, UNIT_SIZE
from bolide.spark.errors import OptionError
from bolide.spark.log_scan import Stretch, first_store_timestamp

if TYPE_CHECKING:
    from bolide.layout.property_columns import Ints

STRETCH: Final = 64 * 1024 * 1024
"""What a stretch covers unless told: little enough that many of a seldom topic's neighbours are left out."""
_TASKS: Final = 16
_MOST: Final = 4 * STRETCH
LAST_STRETCH: Final = 5 * 1024 * 1024
"""The least a file's last stretch covers: more than any record, so that its task sees where the filler begins."""


def segment_files(folder: Path) -> list[tuple[int, Path, int]]:
    """Start, path and bytes of each file of a segmented stream, in order; other names are left out."""
    if not folder.is_dir():
        return []
    names = sorted(path for path in folder.iterdir() if len(path.name) == 20 and path.name.isdecimal())
    return [(int(path.name), path, path.stat().st_size) for path in names]


def store_root(path: str) -> Path:
    """The store folder that a path names: itself, or the one around a `commitlog`. Raises OptionError for neither."""
    root = Path(path)
    if root.name == "commitlog" and segment_files(root):
        root = root.parent
    if not segment_files(root / "commitlog"):
        raise OptionError(f"{path} is no store: there is no CommitLog file in {root / 'commitlog'}")
    return root


def plan_stretches(root: Path, split_size: int, begin_ms: int = 0, end_ms: int = 0) -> list[Stretch]:
    """The whole log in stretches of about `split_size` bytes, without files stored outside [begin_ms, end_ms).

    0 as an end is no end. A broker whose clock was set back stores out of order by as much: widen the range then.
    """
    files = segment_files(root / "commitlog")
    times = [first_store_timestamp(str(path), start) for start, path, _ in files]
    holding = [number for number, time in enumerate(times) if time >= 0]
    last = holding[-1] if holding else len(files) - 1
    found: list[Stretch] = []
    next_times = [-1] * len(times)
    for number in range(len(times) - 2, -1, -1):
        next_times[number] = times[number + 1] if times[number + 1] >= 0 else next_times[number + 1]
    for number, ((start, path, size), following) in enumerate(zip(files, next_times, strict=True)):
        if 0 <= following < begin_ms or (end_ms and times[number] >= end_ms):
            continue
        whole = Stretch(str(path), start, size, 0, size, last=number >= last)
        found += cut(whole, split_size)
    return found


def cut(whole: Stretch, split_size: int) -> list[Stretch]:
    """A stretch in pieces of about this size; the last of a file is never small."""
    tail = LAST_STRETCH if whole.end == whole.size > 2 * LAST_STRETCH else 0
    cuts = [at for at in range(whole.begin, whole.end, split_size) if at == whole.begin or at + tail <= whole.end]
    return [
        replace(
            whole, begin=a, end=b, known_begin=whole.known_begin and a == whole.begin,
            known_end=whole.known_end and b == whole.end,
        )
        for a, b in pairwise([*cuts, whole.end])
    ]  # fmt: skip


def tasks_of(parts: Sequence[Stretch], split_size: int = 0) -> list[tuple[Stretch, ...]]:
    """Stretches as tasks of about this size; of a size that fits the whole when none is told.

    A task costs Spark as much as reading some 50,000 records, so a large log is not cut finely; a small one is, since
    what comes behind a source is shared out by its tasks.
    """
    size = sum(part.end - part.begin for part in parts) // _TASKS
    return packed(parts, split_size or min(max(size, STRETCH), _MOST))


def packed(stretches: Sequence[Stretch], split_size: int) -> list[tuple[Stretch, ...]]:
    """Neighbours together, as long as they are no larger than this, so that ten thousand small files are few tasks."""
    groups: list[tuple[Stretch, ...]] = []
    size = split_size
    for part in stretches:
        size += part.end - part.begin
        if size > split_size:
            groups.append((part,))
            size = part.end - part.begin
        else:
            groups[-1] += (part,)
    return groups


def with_topics(root: Path, parts: list[Stretch], topics: tuple[str, ...]) -> list[Stretch]:
    """The stretches in which records of these topics may begin.

    A topic without queue files, and what no queue of the store has passed yet, is never left out.
    """
    folders = [folder for topic in topics for folder in sorted((root / "consumequeue" / topic).glob("[0-9]*"))]
    if not parts or any(not (root / "consumequeue" / topic).is_dir() for topic in topics):
        return parts
    passed = max((_last_unit(folder) for folder in (root / "consumequeue").glob("*/[0-9]*")), default=-1)
    begins = np.array([part.start + part.begin for part in parts], np.int64)
    hits = np.zeros(len(parts), np.bool_)
    for folder in folders:
        for _, path, _ in segment_files(folder):
            offsets = unit_offsets(path)
            within = np.searchsorted(begins, offsets, "right") - 1
            hits[within[within >= 0]] = True
    return [part for part, hit in zip(parts, hits.tolist(), strict=True) if hit or part.start + part.end > passed]


def unit_offsets(path: Path) -> Ints:
    """Physical offsets of the units of one ConsumeQueue file; pre-blank and unwritten ones left out."""
    units = unit_batch(path.read_bytes())
    sizes = units.column("size").to_numpy()
    offsets: Ints = units.column("physical_offset").to_numpy()
    used: Ints = offsets[(sizes > 0) & (sizes != PRE_BLANK_SIZE)]
    return used


def _last_unit(folder: Path) -> int:
    """Physical offset of a queue's last unit; -1 when it has none."""
    for _, path, size in reversed(segment_files(folder)):
        with path.open("rb") as file:
            low, high = 0, size // UNIT_SIZE
            while low < high:
                middle = (low + high) // 2
                file.seek(middle * UNIT_SIZE)
                unit = file.read(UNIT_SIZE)
                low, high = (middle + 1, high) if int.from_bytes(unit[8:12], "big") else (low, middle)
            if low:
                file.seek((low - 1) * UNIT_SIZE)
                unit = file.read(UNIT_SIZE)
                if int.from_bytes(unit[8:12], "big") != PRE_BLANK_SIZE:
                    return int.from_bytes(unit[:8], "big")
    return -1
