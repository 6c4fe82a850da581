"""Keeps the derived files of a store up to date while its broker runs: the dispatch pipeline as a streaming query.

Spark's source finds the durable end and plans micro-batches. The two stages of `dispatch_job` dispatch each batch
directly into the output folder. A small state file contains the progress. The previous state determines the position of
every write of a batch, so a repeated batch overwrites its output with the same bytes. The order of writes:

1. units, extension units and index entries after those of the state, then slots and headers; synced;
2. `derived.json` and `checkpoint`, which only describe what exists;
3. the state file, by a rename. After this, the batch is done, and is skipped if Spark repeats it.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bolide.errors import BolideError
from bolide.spark.dispatch.bitmaps import read_filters
from bolide.spark.dispatch.dispatch_job import DispatchJob, DispatchReport
from bolide.spark.dispatch.dispatch_state import DerivedState, decode_state, encode_state
from bolide.spark.dispatch.output_files import replace_file
from bolide.spark.dispatch.swap import CHECKPOINT, DERIVED, INVENTORY
from bolide.spark.errors import OptionError
from bolide.spark.session.progress import Runner
from bolide.spark.store.log_scan import Stretch
from bolide.spark.store.store_plan import store_root
from bolide.spark.store.store_schema import STRETCHES
from bolide.store.disk.files import RealFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from bolide.layout.shape import StoreShape

FOLDER: Final = ".bolide-follow"
STATE: Final = "state.json"
BYTES_PER_BATCH: Final = 1 << 30
_CLOSE_POLL_S: Final = 0.2


@dataclass(frozen=True)
class Followed:
    """A dispatched batch: its end as a physical offset, the number of its records, and its duration in seconds."""

    end_offset: int
    records: int
    seconds: float
    skipped: int
    bad: int


class Follower:
    """Adds batches to the output folder. It uses Spark only through `Runner`."""

    def __init__(self, root: str, out: str, shape: StoreShape, skip_corrupt: bool = False) -> None:
        self._out = Path(out)
        self._shape = shape
        self._skip_corrupt = skip_corrupt
        self._folder = self._out / FOLDER
        self._state_file = self._folder / STATE
        if self._state_file.exists():
            data = self._state_file.read_bytes()
            self.state, self._filters = decode_state(data, shape, str(self._out))
        else:
            there = [name for name in (*DERIVED, CHECKPOINT) if (self._out / name).exists()]
            if there:
                names = " and ".join(there)
                raise OptionError(f"{self._out} already has {names}, not created by following: name another folder")
            # Bits of the filter bitmaps must have the same meaning in all units, so later filters need a rebuild.
            self.state, self._filters = DerivedState(), read_filters(Path(root), shape)
            # Write the state first, because a folder without a state does not belong to a follower.
            self._save(self.state)
        for name in ("consumequeue", "index", *(("consumequeue_ext",) if shape.enable_consume_queue_ext else ())):
            (self._out / name).mkdir(parents=True, exist_ok=True)

    @property
    def checkpoint_folder(self) -> str:
        """Folder of the query's checkpoint."""
        return str(self._folder / "query")

    def apply(self, stretches: Sequence[Stretch], runner: Runner) -> Followed | None:
        """Dispatch the stretches of a batch, in order, or return None if that has already been done."""
        began = time.monotonic()
        end = max((part.start + part.end for part in stretches), default=-1)
        known = self.state.end_offset
        if end <= known:
            return None
        begin = min(part.start + part.begin for part in stretches)
        if 0 <= known != begin:
            raise OptionError(
                f"{self._out} ends at physical offset {known} and the query continues at {begin}: one of the two is an "
                f"older copy; remove {self.checkpoint_folder} and start again"
            )
        parts = self._folder / "parts"
        # Delete the files of an interrupted batch.
        shutil.rmtree(parts, ignore_errors=True)
        report = DispatchReport("", str(self._out))
        job = DispatchJob(runner, self._shape, self._filters, str(parts))
        before = self.state
        after = job.run(stretches, before, str(self._out), report, self._skip_corrupt)
        after.end_offset = end
        for name in set(before.index) - set(after.index):
            # The file had no entry, and now gets the name of its first one.
            with suppress(FileNotFoundError):
                (self._out / "index" / name).unlink()
        replace_file(str(self._out / INVENTORY), after.inventory())
        replace_file(str(self._out / CHECKPOINT), after.checkpoint(self._shape).encode())
        self._save(after)
        self.state = after
        shutil.rmtree(parts, ignore_errors=True)
        seconds = time.monotonic() - began
        return Followed(end, report.records, seconds, len(report.skipped), len(report.bad))

    def _save(self, state: DerivedState) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        replace_file(str(self._state_file), encode_state(state, self._shape, self._filters))


def follow_store(
    spark: SparkSession,
    store: str,
    shape: StoreShape,
    *,
    out: str,
    follow: bool = False,
    skip_corrupt: bool = False,
    seconds_between: float = 1.0,
    durable: str = "auto",
    on_batch: Callable[[Followed], None] = lambda _: None,
) -> DerivedState:
    """Update the derived files in `out` to the end of the log, resuming where the last call stopped. With `follow`,
    continue until SIGINT or SIGTERM, with a batch every `seconds_between` seconds.

    Raises `OptionError` if `store` is not a store folder or `out` was not created by this function, and `FileLocked` if
    another process uses `out`.
    """
    root = store_root(store).absolute()
    target = Path(out).absolute()
    if target == root:
        raise OptionError(f"{out} is the store itself, whose broker writes these files: name another folder")
    target.mkdir(parents=True, exist_ok=True)
    files = RealFiles()
    lock = files.lock(str(target / "lock"))
    try:
        follower = Follower(str(root), str(target), shape, skip_corrupt)
        if follower.state.end_offset < 0:
            # Without a state, the query would skip batches that are done according to its checkpoint.
            shutil.rmtree(follower.checkpoint_folder, ignore_errors=True)
        runner = Runner(spark.sparkContext)

        failed: list[BolideError] = []

        def batch(frame: DataFrame, _: int) -> None:
            stretches = [Stretch(**row.asDict()) for row in frame.collect()]
            try:
                done = follower.apply(sorted(stretches, key=lambda part: part.start + part.begin), runner)
            except BolideError as error:
                failed.append(error)  # Spark would keep only its text
                raise
            if done is not None:
                on_batch(done)

        from pyspark.errors import PySparkException

        from bolide.spark import ending_runs
        from bolide.spark.failures import job_failed
        from bolide.spark.store.store_source import RocketMQStoreDataSource

        spark.dataSource.register(RocketMQStoreDataSource)
        start = "earliest" if follower.state.end_offset < 0 else str(follower.state.end_offset)
        more = {"maxBytesPerTrigger": str(BYTES_PER_BATCH)} | ({} if follow else dict(ending_runs.OPTIONS))
        frame = (
            spark.readStream.format("rocketmq-store")
            .options(table=STRETCHES, startingOffsets=start, durable=durable, **more)
            .option("corruptRecords", "skip" if skip_corrupt else "fail")
            .load(str(root))
        )
        writer = frame.writeStream.foreachBatch(batch).option("checkpointLocation", follower.checkpoint_folder)
        trigger = {"processingTime": f"{seconds_between} seconds"} if follow else ending_runs.TRIGGER
        try:
            _wait(writer.trigger(**trigger).start(), follow)
        except PySparkException as error:
            raise failed[0] if failed else job_failed(error) from None
        return follower.state
    finally:
        files.unlock(lock)


def _wait(query: StreamingQuery, follow: bool) -> None:
    """Wait until the run ends or a signal stops it. The next run then repeats the current batch."""
    from bolide.spark.ending_runs import ended

    asked: list[int] = []
    before = {
        number: signal.signal(number, lambda got, _: asked.append(got)) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        while not ended(query, _CLOSE_POLL_S, follow):
            if asked:
                query.stop()
                return
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
