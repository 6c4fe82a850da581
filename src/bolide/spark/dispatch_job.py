"""The dispatch pipeline on Spark: queue, extension and index files and the checkpoint of a store from its log alone.

Two jobs. The first reads the log, a stretch a task, and writes what follows from each record into part files; the
driver then knows which units of which queue lie where. The second writes the files themselves, many queues or one index
file a task. Rows never pass through the JVM: part files take the place of a shuffle, so store and output must lie on
storage that driver and executors see under one path, as a store's files must anyway.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bolide.dispatch.rebuild import Skipped
from bolide.layout.checkpoint import Checkpoint
from bolide.layout.queue_unit import UNIT_SIZE
from bolide.spark.bitmaps import TopicFilter, read_filters
from bolide.spark.derived_files import Runs, index_file_count, write_index, write_queue
from bolide.spark.dispatch_parts import PartSummary, make_part, read_entries, write_new
from bolide.spark.errors import CorruptStore, OptionError
from bolide.spark.log_scan import BadRange, Stretch, first_store_timestamp
from bolide.spark.store_plan import plan_stretches, store_root
from bolide.spark.swap import CHECKPOINT, DERIVED, INVENTORY, put_in, swap_in
from bolide.store.files import RealFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bolide.layout.shape import StoreShape

STAGING: Final = ".bolide-dispatch"
SPLIT_SIZE: Final = 64 * 1024 * 1024
_POLL_S: Final = 0.5


@dataclass(frozen=True)
class Progress:
    """How far a stage is: `done` of `total` bytes (reading) or files (writing), and the seconds since it began."""

    stage: str
    done: int
    total: int
    seconds: float

    @property
    def rate(self) -> float:
        """Done per second."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float:
        """At this rate; 0 while nothing is known."""
        return (self.total - self.done) / self.rate if self.rate > 0 else 0.0


@dataclass
class DispatchReport:
    """What was made. `skipped` are records dispatch passed over, `bad` places of the log that hold none."""

    store: str
    out: str
    records: int = 0
    log_bytes: int = 0
    queues: int = 0
    units: int = 0
    index_files: int = 0
    index_entries: int = 0
    end_offset: int = 0
    """Physical offset behind the last good record."""
    seconds: float = 0.0
    bad: list[BadRange] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    late_filters: list[str] = field(default_factory=list)
    """``topic@group`` of filters younger than the log: units older than they have bits that a broker's have not."""


def dispatch_store(
    spark: SparkSession,
    store: str,
    shape: StoreShape,
    out: str | None = None,
    skip_corrupt: bool = False,
    split_size: int = SPLIT_SIZE,
    progress: Callable[[Progress], None] | None = None,
) -> DispatchReport:
    """Rebuild what is derived from a store's log, into the folder `out`, or in place when there is none.

    Raises FileLocked while a broker has the store, CorruptStore when the log holds bad ranges and they are not to be
    skipped, OptionError when `out` has such files already. A failure leaves the store as it was.
    """
    began = time.monotonic()
    root = store_root(store).absolute()
    target = root if out is None else Path(out).absolute()
    if out is not None:
        there = [name for name in (*DERIVED, CHECKPOINT) if (target / name).exists()]
        if there:
            raise OptionError(f"{target} has {' and '.join(there)} already: name an empty folder, or rebuild in place")
    files = RealFiles()
    lock = files.lock(str(root / "lock"))
    staging = target / STAGING
    try:
        # What a rebuild that was killed left behind; nobody else is here while the lock is held.
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        job = _Job(spark, root, shape, staging, progress or (lambda _: None))
        report = DispatchReport(str(root), str(target))
        job.run(report, skip_corrupt, split_size)
        if out is None:
            swap_in(staging / "new", root)
        else:
            put_in(staging / "new", target)
        report.seconds = time.monotonic() - began
        return report
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        files.unlock(lock)


class _Job:
    """One rebuild on its way."""

    def __init__(
        self, spark: SparkSession, root: Path, shape: StoreShape, staging: Path, progress: Callable[[Progress], None]
    ) -> None:
        self._context = spark.sparkContext
        self._root = root
        self._shape = shape
        self._staging = staging
        self._progress = progress

    def run(self, report: DispatchReport, skip_corrupt: bool, split_size: int) -> None:
        """Both stages and the checkpoint, into the staging folder."""
        shape = self._shape
        stretches = list(enumerate(plan_stretches(self._root, split_size)))
        report.log_bytes = sum(part.end - part.begin for _, part in stretches)
        filters = read_filters(self._root, shape)
        read = partial(_read_stretch, shape=shape, folder=str(self._staging / "parts"), filters=filters)
        parts: list[PartSummary] = self._each("read", stretches, read, [part.end - part.begin for _, part in stretches])
        parts.sort(key=lambda part: part.number)
        report.records = sum(part.records for part in parts)
        report.index_entries = sum(part.entries for part in parts)
        report.end_offset = max((part.end_offset for part in parts), default=0)
        report.bad = [bad for part in parts for bad in part.bad]
        lost = [bad for bad in report.bad if not bad.torn]
        if lost and not skip_corrupt:
            raise CorruptStore(
                f"{lost[0].path} holds {lost[0].reason} at physical offset {lost[0].physical_offset}, one of "
                f"{len(lost)} such places: bring the file back from a replica, or skip them"
            )
        new = self._staging / "new"
        for name in ("consumequeue", "index", *(("consumequeue_ext",) if shape.enable_consume_queue_ext else ())):
            (new / name).mkdir(parents=True)
        tasks = self._tasks(parts, report)
        filtered = frozenset(one.topic for one in filters)
        write = partial(_write_files, shape=shape, folder=str(new), parts=_without_runs(parts), filtered=filtered)
        ends: dict[tuple[str, int], int] = {}
        for written, skipped in self._each("write", tasks, write, [task.files for task in tasks]):
            ends.update(written)
            report.skipped += skipped
        report.units = sum(ends.values())
        write_new(str(new / INVENTORY), [self._inventory(tasks, ends)])
        report.skipped.sort(key=lambda skip: skip.physical_offset)
        write_new(str(new / CHECKPOINT), [self._checkpoint(parts).encode()])
        begin = first_store_timestamp(stretches[0][1].path, stretches[0][1].start) if stretches else 0
        report.late_filters = [f"{one.topic}@{one.group}" for one in filters if one.born > begin]

    def _tasks(self, parts: list[PartSummary], report: DispatchReport) -> list[_Files]:
        """Index files first, they take longest; queues in bundles of like size."""
        shape = self._shape
        queues: dict[tuple[str, int], list[Any]] = {}
        for part in parts:
            for run in part.runs:
                queues.setdefault((run.topic, run.queue_id), []).append((part, run))
        report.queues = len(queues)
        report.index_files = index_file_count(parts, shape) if shape.index_enabled else 0
        tasks = [_Files(index=(number, name)) for number, name in enumerate(self._names(parts, report.index_files))]
        bundles: list[_Files] = [_Files() for _ in range(min(len(queues), 4 * self._context.defaultParallelism))]
        weights = [0] * len(bundles)
        for _, runs in sorted(queues.items(), key=lambda item: -sum(run.count for _, run in item[1])):
            lightest = weights.index(min(weights))
            bundles[lightest].queues.append([(_without_runs([part])[0], run) for part, run in runs])
            # A file costs about as much as ten thousand units.
            weights[lightest] += 10_000 + sum(run.count for _, run in runs)
        return tasks + bundles

    def _names(self, parts: Sequence[PartSummary], count: int) -> list[str]:
        """Names of index files: the time of their first entry, in local time as a broker's, each later than the last.

        A broker names them by the time at which it makes them, which no file holds.
        """
        files = RealFiles()
        found: list[str] = []
        most = self._shape.index_entries - 1
        for number in range(count):
            first = read_entries(parts, number * most, number * most + 1)
            time_ms = int(first["time"][0]) if len(first) else max(part.last_timestamp for part in parts)
            name = files.local_time(time_ms)
            found.append(name if not found or name > found[-1] else str(int(found[-1]) + 1).zfill(len(name)))
        return found

    def _inventory(self, tasks: Sequence[_Files], units: Mapping[tuple[str, int], int]) -> bytes:
        """Which files Bolide's broker will find: of each queue the byte its files begin with, and its end."""
        size = self._shape.consume_queue_segment_size
        table: dict[str, dict[str, list[int]]] = {}
        for runs in (runs for task in tasks for runs in task.queues):
            first = runs[0][1]
            start = first.begin_offset * UNIT_SIZE // size * size
            end = first.begin_offset + units[first.topic, first.queue_id]
            table.setdefault(first.topic, {})[str(first.queue_id)] = [start, end]
        names = [task.index[1] for task in tasks if task.index is not None]
        return json.dumps({"queues": table, "index": names}).encode()

    def _checkpoint(self, parts: Sequence[PartSummary]) -> Checkpoint:
        """Everything up to the last record is in the files; the index safe up to its last full file."""
        last = max(parts, key=lambda part: part.last_offset)
        if last.records == 0:
            return Checkpoint()
        most = self._shape.index_entries - 1
        full = sum(part.entries for part in parts) // most if self._shape.index_enabled else 0
        newest = read_entries(parts, max(full * most - 1, 0), full * most)
        return Checkpoint(
            physic_msg_timestamp=last.last_timestamp,
            logics_msg_timestamp=last.last_timestamp,
            index_msg_timestamp=int(newest["time"][0]) if len(newest) else 0,
            logics_physical_offset=last.last_offset if self._shape.store_version != "4.9" else 0,
        )

    def _each(self, stage: str, tasks: Sequence[Any], run: Callable[[Any], Any], weights: Sequence[int]) -> list[Any]:
        """What `run` gives for each task, a Spark task each, with progress by the tasks' weights."""
        if not tasks:
            return []
        done = self._context.accumulator(0)
        began = time.monotonic()
        total = sum(weights)

        def one(both: Iterable[tuple[Any, int]]) -> Iterable[Any]:
            for task, weight in both:
                yield run(task)
                done.add(weight)

        both = list(zip(tasks, weights, strict=True))
        data = self._context.parallelize(both, len(both)).mapPartitions(one)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(data.collect)
            while True:
                finished = wait([answer], _POLL_S).done
                self._progress(Progress(stage, min(done.value, total), total, time.monotonic() - began))
                if finished:
                    return list(answer.result())


@dataclass
class _Files:
    """One task of the second stage: an index file (number and name), or the queues it writes."""

    index: tuple[int, str] | None = None
    queues: list[Runs] = field(default_factory=list)

    @property
    def files(self) -> int:
        return 1 if self.index else len(self.queues)


def _read_stretch(
    numbered: tuple[int, Stretch], shape: StoreShape, folder: str, filters: Sequence[TopicFilter]
) -> PartSummary:
    number, part = numbered
    return make_part(part, shape, f"{folder}/{number:08d}", number, filters)


def _write_files(
    task: _Files, shape: StoreShape, folder: str, parts: Sequence[PartSummary], filtered: Collection[str]
) -> tuple[dict[tuple[str, int], int], list[Skipped]]:
    """The units written of each queue, and what was passed over."""
    units: dict[tuple[str, int], int] = {}
    skipped: list[Skipped] = []
    if task.index is not None:
        write_index(folder, parts, *task.index, shape)
    for runs in task.queues:
        count, odd = write_queue(folder, runs, shape, filtered)
        units[runs[0][1].topic, runs[0][1].queue_id] = count
        skipped += odd
    return units, skipped


def _without_runs(parts: Sequence[PartSummary]) -> list[PartSummary]:
    """The parts as tasks need them, without what only the driver plans with."""
    kept = ("path", "number", "records", "units", "entries", "row_bytes")
    return [PartSummary(**{name: getattr(part, name) for name in kept}) for part in parts]
