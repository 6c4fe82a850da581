"""Plans the tasks of a read: the stretches of CommitLog files that it needs. Reads only names and a few bytes.

Time: records are stored in order of time, so a file's first record bounds the previous file. Topic: the topic's
ConsumeQueue units contain the positions of its records. They exclude only dispatched parts of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from bolide.layout.errors import LayoutError
from bolide.spark.errors import OptionError
from bolide.spark.store.log_scan import Stretch, first_store_timestamp
from bolide.spark.store.store_folder import (
    gaps,
    kept_ends,
    last_unit,
    log_end,
    log_files,
    queue_folders,
    queue_offsets,
    segment_files,
)
from bolide.store.disk.files import RealFiles
from bolide.store.disk.format_stamp import check_format

STRETCH: Final = 64 * 1024 * 1024
"""Default size of a stretch in bytes, small enough to skip much of the log for a rare topic."""
_TASKS: Final = 16
_NONE: Final = np.iinfo(np.int64).max
_MOST: Final = 4 * STRETCH
LAST_STRETCH: Final = 5 * 1024 * 1024
"""Minimum size in bytes of a file's last stretch: more than any record, so that its task finds the filler's start."""


def store_root(path: str) -> Path:
    """Return the store folder of a path: the path itself, or the parent of a `commitlog`. Raises `OptionError` if there
    is no store, or if only newer versions can read its format."""
    root = Path(path)
    if root.name == "commitlog" and segment_files(root):
        root = root.parent
    if not segment_files(root / "commitlog"):
        raise OptionError(f"{path} is not a store: there is no CommitLog file in {root / 'commitlog'}")
    try:
        check_format(RealFiles(), str(root))
    except LayoutError as error:
        raise OptionError(str(error)) from error
    return root


def plan_stretches(root: Path, split_size: int, begin_ms: int = 0, end_ms: int = 0) -> list[Stretch]:
    """Return the log in stretches of about `split_size` bytes, without files stored outside [begin_ms, end_ms).

    An `end_ms` of 0 means no end. If the clock of a broker was set back, its records are out of order by that time, so
    the caller must widen the range. Missing bytes between two files, or at the end of the log, are the gap of the
    previous stretch.
    """
    known = log_end(root)
    files = log_files(root)
    times = [first_store_timestamp(str(path), start) for start, path, _ in files]
    holding = [number for number, time in enumerate(times) if time >= 0]
    last = holding[-1] if holding else len(files) - 1
    found: list[Stretch] = []
    next_times = [-1] * len(times)
    for number in range(len(times) - 2, -1, -1):
        next_times[number] = times[number + 1] if times[number + 1] >= 0 else next_times[number + 1]
    beyond = max(known.named - files[-1][0] - files[-1][2], 0) if files else 0
    for number, ((start, path, size), following, gap) in enumerate(
        zip(files, next_times, [*gaps(files), beyond], strict=True)
    ):
        if 0 <= following < begin_ms or (end_ms and times[number] >= end_ms):
            continue
        # Bytes after the start of the next file are not part of the log.
        there = size + min(gap, 0)
        whole = Stretch(
            str(path), start, there, 0, there, last=number >= last, named_end=known.named, clean=known.clean, gap=gap
        )
        found += cut(whole, split_size)
    return found


def cut(whole: Stretch, split_size: int) -> list[Stretch]:
    """Split a stretch into pieces of about `split_size` bytes. The last piece of a file is never small.

    Pieces do not read beyond the known end of `whole`, because a record that crosses into the next piece may be the
    last.
    """
    whole = replace(whole, size=whole.end) if whole.known_end else whole
    tail = LAST_STRETCH if whole.end == whole.size > 2 * LAST_STRETCH else 0
    cuts = [at for at in range(whole.begin, whole.end, split_size) if at == whole.begin or at + tail <= whole.end]
    return [
        replace(
            whole, begin=a, end=b, known_begin=whole.known_begin and a == whole.begin,
            known_end=whole.known_end and b == whole.end, gap=whole.gap if b == whole.end else 0,
        )
        for a, b in pairwise([*(cuts or [whole.begin]), whole.end])
        if a < b or whole.gap
    ]  # fmt: skip


def tasks_of(parts: Sequence[Stretch], split_size: int = 0) -> list[tuple[Stretch, ...]]:
    """Return stretches as tasks of about `split_size` bytes, or of a size derived from their total for 0.

    Starting a task costs as much as reading about 50,000 records, so a large log is not split finely. A small log is,
    because the steps after a source run in its tasks.
    """
    size = sum(part.end - part.begin for part in parts) // _TASKS
    return packed(parts, split_size or min(max(size, STRETCH), _MOST))


def packed(stretches: Sequence[Stretch], split_size: int) -> list[tuple[Stretch, ...]]:
    """Join neighbours up to `split_size` bytes, so that ten thousand small files need few tasks."""
    groups: list[tuple[Stretch, ...]] = []
    size = split_size
    for part in stretches:
        size += part.end - part.begin
        if size > split_size or not groups:
            groups.append((part,))
            size = part.end - part.begin
        else:
            groups[-1] += (part,)
    return groups


def with_topics(root: Path, parts: list[Stretch], topics: tuple[str, ...]) -> list[Stretch]:
    """Return the stretches in which records of these topics may start.

    Returns all stretches if a topic has no queue files or incomplete ones. Always includes stretches that are not
    completely dispatched, and stretches before a gap of the log.
    """
    folders = [(topic, folder) for topic in topics for folder in queue_folders(root, topic)]
    if not parts or any(not (root / "consumequeue" / topic).is_dir() for topic in topics):
        return parts
    noted = {topic: kept_ends(root, topic) for topic in topics}
    if any(not (root / "consumequeue" / topic / queue).is_dir() for topic in topics for queue in noted[topic]):
        return parts
    passed = max((last_unit(folder)[0] for folder in (root / "consumequeue").glob("*/[0-9]*")), default=-1)
    begins = np.array([part.start + part.begin for part in parts], np.int64)
    named = np.full(len(parts), _NONE)
    for topic, folder in folders:
        queue = queue_offsets(folder)
        if queue is None or queue.end < noted[topic].get(folder.name, 0):
            return parts
        within = np.searchsorted(begins, queue.offsets, "right") - 1
        np.minimum.at(named, within[within >= 0], queue.offsets[within >= 0])
    found: list[Stretch] = []
    before = True
    for part, first in zip(parts, named.tolist(), strict=True):
        kept = first < _NONE or part.start + part.end > passed or part.gap != 0
        if kept:
            # The previous stretch is not read, so only a queue unit can show a gap that reaches into this stretch.
            found.append(part if before or not part.begin else replace(part, named=first if first < _NONE else -1))
        before = kept
    return found
