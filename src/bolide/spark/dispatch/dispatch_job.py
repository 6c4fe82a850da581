"""The dispatch pipeline on Spark: rebuilds queue, extension and index files and the checkpoint from the log alone.

It runs two jobs. The first reads the log, one stretch per task, and writes the units and entries of each record into
part files, and returns their positions to the driver. The second writes the files themselves, many queues or one index
file per task. Rows never pass through the JVM: part files replace a shuffle, so store and output must be on storage
that driver and executors see at the same path, which a store requires anyway.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bolide.dispatch.rebuild import Skipped
from bolide.spark.dispatch.bitmaps import TopicFilter, read_filters
from bolide.spark.dispatch.derived_files import WrittenQueue, write_queue
from bolide.spark.dispatch.dispatch_parts import PartFiles, PartSummary, make_part
from bolide.spark.dispatch.dispatch_plan import WriteTask, bundles, index_names, index_tasks, next_state
from bolide.spark.dispatch.dispatch_state import DerivedState, QueueEnd
from bolide.spark.dispatch.index_pieces import write_index
from bolide.spark.dispatch.output_files import OutputFiles, replace_file
from bolide.spark.dispatch.swap import CHECKPOINT, DERIVED, INVENTORY, put_in, swap_in
from bolide.spark.errors import CorruptStore, OptionError
from bolide.spark.session.progress import OnProgress, Runner, no_progress
from bolide.spark.store.log_scan import BadRange, Stretch, first_store_timestamp
from bolide.spark.store.store_plan import packed, plan_stretches, store_root
from bolide.store.disk.files import RealFiles

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from bolide.layout.shape import StoreShape

STAGING: Final = ".bolide-dispatch"
SPLIT_SIZE: Final = 64 * 1024 * 1024
TASKS_PER_CORE: Final = 4


@dataclass
class DispatchReport:
    """The result of a dispatch. `skipped` are records that it skipped, `bad` are ranges of the log without a record."""

    store: str
    out: str
    records: int = 0
    log_bytes: int = 0
    queues: int = 0
    units: int = 0
    index_files: int = 0
    index_entries: int = 0
    end_offset: int = 0
    """Physical offset after the last valid record."""
    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    """Duration of each stage in seconds."""
    bad: list[BadRange] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    late_filters: list[str] = field(default_factory=list)
    """``topic@group`` of filters registered after the first message. Older units have more bits than a broker's."""


def dispatch_store(
    spark: SparkSession | SparkContext,
    store: str,
    shape: StoreShape,
    *,
    out: str | None = None,
    skip_corrupt: bool = False,
    split_size: int = SPLIT_SIZE,
    progress: OnProgress = no_progress,
) -> DispatchReport:
    """Rebuild the files derived from a store's log, into the folder `out`, or in place without `out`.

    Raises `FileLocked` while a broker uses the store, `CorruptStore` if the log has bad ranges that may not be skipped,
    and `OptionError` if `out` already has such files. A failure leaves the store unchanged.
    """
    return dispatch_with(Runner(spark, progress), store, shape, out, skip_corrupt, split_size)


def dispatch_with(
    runner: Runner,
    store: str,
    shape: StoreShape,
    out: str | None = None,
    skip_corrupt: bool = False,
    split_size: int = SPLIT_SIZE,
) -> DispatchReport:
    """Like `dispatch_store`, with any runner of tasks."""
    began = time.monotonic()
    root = store_root(store).absolute()
    target = root if out is None else Path(out).absolute()
    if out is not None:
        there = [name for name in (*DERIVED, CHECKPOINT) if (target / name).exists()]
        if there:
            raise OptionError(f"{target} already has {' and '.join(there)}: name an empty folder, or rebuild in place")
    files = RealFiles()
    lock = files.lock(str(root / "lock"))
    staging = target / STAGING
    try:
        # Delete the files of a killed rebuild. The lock excludes other processes.
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        stretches = plan_stretches(root, split_size)
        filters = read_filters(root, shape)
        report = DispatchReport(str(root), str(target), log_bytes=sum(part.end - part.begin for part in stretches))
        new = staging / "new"
        for name in ("consumequeue", "index", *(("consumequeue_ext",) if shape.enable_consume_queue_ext else ())):
            (new / name).mkdir(parents=True)
        job = DispatchJob(runner, shape, filters, str(staging / "parts"))
        state = job.run(stretches, DerivedState(), str(new), report, skip_corrupt, split_size)
        replace_file(str(new / INVENTORY), state.inventory())
        replace_file(str(new / CHECKPOINT), state.checkpoint(shape).encode())
        begin = first_store_timestamp(stretches[0].path, stretches[0].start) if stretches else 0
        report.late_filters = [f"{one.topic}@{one.group}" for one in filters if one.born > begin]
        if out is None:
            swap_in(staging / "new", root)
        else:
            put_in(staging / "new", target)
        report.seconds, report.stages = time.monotonic() - began, runner.seconds
        return report
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        files.unlock(lock)


class DispatchJob:
    """Runs both stages over stretches of a log, continuing from the files in the folder `root`."""

    def __init__(self, runner: Runner, shape: StoreShape, filters: Sequence[TopicFilter], parts: str) -> None:
        self._runner = runner
        self._shape = shape
        self._filters = tuple(filters)
        self._parts = parts

    def run(
        self,
        stretches: Sequence[Stretch],
        state: DerivedState,
        root: str,
        report: DispatchReport,
        skip_corrupt: bool,
        split_size: int = SPLIT_SIZE,
    ) -> DerivedState:
        """Dispatch stretches, and return the new state. Raises `CorruptStore` before any write if the log has bad
        ranges that may not be skipped."""
        runner, shape = self._runner, self._shape
        read = partial(_read_stretches, shape=shape, folder=self._parts, filters=self._filters)
        groups = packed(stretches, split_size)
        sizes = [sum(part.end - part.begin for part in group) for group in groups]
        parts = runner.each("reading the log", "bytes", list(enumerate(groups)), read, sizes)
        report.bad += [bad for part in parts for bad in part.bad]
        lost = [bad for bad in report.bad if not bad.torn]
        if lost and not skip_corrupt:
            raise CorruptStore(
                f"{lost[0].path} holds {lost[0].reason} at physical offset {lost[0].physical_offset}, one of "
                f"{len(lost)} such ranges: restore the file from a replica, or skip them"
            )
        tasks = bundles(parts, state.queues, TASKS_PER_CORE * runner.parallelism)
        files = PartFiles([part.file for part in parts])
        names = index_names(parts, files, state, shape) if shape.index_enabled else []
        if shape.index_enabled:
            # Start these first, because they take longest.
            tasks = index_tasks(files, state, names, root, shape, 2 * runner.parallelism) + tasks
        filtered = frozenset(one.topic for one in self._filters)
        write = partial(_write_files, shape=shape, root=root, parts=files, filtered=filtered)
        ends: dict[tuple[str, int], QueueEnd] = {}
        for written in runner.each("writing files", "files", tasks, write, [task.files for task in tasks]):
            for key, queue in written.items():
                ends[key] = queue.end
                report.units += queue.units
                report.skipped += queue.skipped
        report.skipped.sort(key=lambda skip: skip.physical_offset)
        after = next_state(parts, files, state, names, ends, shape)
        files.close()
        report.records += sum(part.records for part in parts)
        report.queues, report.index_files = len(after.queues), len(names)
        report.index_entries, report.end_offset = after.entries, max(after.end_offset, 0)
        return after


def _read_stretches(
    numbered: tuple[int, Sequence[Stretch]], shape: StoreShape, folder: str, filters: Sequence[TopicFilter]
) -> PartSummary:
    number, stretches = numbered
    return make_part(stretches, shape, f"{folder}/{number:08d}", number, filters)


def _write_files(
    task: WriteTask, shape: StoreShape, root: str, parts: PartFiles, filtered: Collection[str]
) -> dict[tuple[str, int], WrittenQueue]:
    """Execute a task of the second stage. Returns the written units of each queue."""
    out = OutputFiles(root)
    with parts:
        if task.piece is not None:
            write_index(out, parts, task.piece, shape)
        written = {
            (queue.topic, queue.queue_id): write_queue(out, parts, queue, shape, filtered) for queue in task.queues
        }
    out.sync()
    return written
