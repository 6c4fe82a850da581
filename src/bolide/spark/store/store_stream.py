"""A stream of `format("rocketmq-store")`: follows the log of a store that a broker writes, up to its durable end.

An offset is a physical offset between two records, so it also shows the progress of a query in bytes. The first end
offset contains its start, because Spark requests the start again when it repeats the first batch. Each offset contains
the record before it (`last_record`), because another store or an older copy that replaced the folder has the same
offsets. It also contains the newest deletion of a topic, which an older copy with the same log may lack.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from bolide.spark.errors import FOREIGN_CHECKPOINT, OptionError
from bolide.spark.older_stream import INITIAL
from bolide.spark.session.worker_process import settle
from bolide.spark.source.data_loss import data_lost
from bolide.spark.spark_versions import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from bolide.spark.store.deleted import is_undone, newest_deletion
from bolide.spark.store.durable import DurableEnd, next_start
from bolide.spark.store.last_record import LAST, Before, changed, file_at, mark_before
from bolide.spark.store.log_scan import Stretch
from bolide.spark.store.store_folder import segment_files
from bolide.spark.store.store_options import EARLIEST, LATEST, StoreReadOptions
from bolide.spark.store.store_plan import STRETCH, cut, plan_stretches, store_root, tasks_of
from bolide.spark.store.store_rows import bad_ranges, read_stretch, stretch_rows
from bolide.spark.store.store_schema import BAD_RANGES, STRETCHES

if TYPE_CHECKING:
    import pyarrow as pa

OFFSET: Final = "offset"
FROM: Final = "from"
DELETED: Final = "deleted"
ASK_INTERVAL_S: Final = 0.1


@dataclass
class LogPartition(InputPartition):
    """A task that reads a part of the log."""

    parts: tuple[Stretch, ...]

    def __post_init__(self) -> None:
        super().__init__(None)


class StoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream reader. One object in a process serves a whole run of a query. `read` runs in executors."""

    def __init__(self, options: StoreReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._root: Path | None = None
        self._durable: DurableEnd | None = None
        self._initial: dict[str, Any] | None = None
        self._latest = -1
        self._until = -1
        self._asked = -ASK_INTERVAL_S
        self._compared = False
        """Whether this run has compared the log with the checkpoint."""

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_columns": self._columns}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_options"], state["_columns"])  # type: ignore[misc] # without the cached state

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_bytes_per_trigger
        return ReadMaxBytes(most) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = self._end()

    def read_until(self, end: dict[str, Any] | None) -> None:
        """Limit the batches of this run to this offset, or remove the limit. For `OlderStream`."""
        self._until = -1 if end is None else int(end[OFFSET])

    def goes_back(self, start: dict[str, Any], end: dict[str, Any]) -> bool:
        """Return whether `end` is lower than `start`. For `OlderStream`."""
        return int(end[OFFSET]) < int(start[OFFSET])

    def initialOffset(self) -> dict[str, Any]:
        # Spark calls this twice before the first batch. "latest" must not change between the calls.
        if self._initial is None:
            options = self._options
            files = segment_files(self._store() / "commitlog")
            at = files[0][0]
            if options.starting == LATEST:
                at = self._end()
            elif options.starting != EARLIEST:
                at = max(options.starting, at)
                end = self._end()
                # No record follows the end yet, and new records start there.
                at = self._boundary(at, end) if at < end else at
            elif options.begin_ms:
                parts = plan_stretches(self._store(), 1 << 40, options.begin_ms)
                at = parts[0].start if parts else self._end()
            self._initial = {INITIAL: True, **self._reached(at)}
        return self._initial

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if OFFSET not in start:
            raise OptionError(FOREIGN_CHECKPOINT)
        begin = int(start[OFFSET])
        end = self._until if self._until >= 0 else self._end()
        replaced = self._is_replaced(start)
        if replaced:
            begin = segment_files(self._store() / "commitlog")[0][0]
            self._durable = None  # it contains the end of the old log
            end = self._end()
            if self._until >= 0:
                self._until = end
        self._compared = True
        self._latest = end
        if isinstance(limit, ReadMaxBytes) and end - begin > limit.max_bytes:
            end = self._boundary(begin + limit.max_bytes, end)
        if end <= begin and not replaced:
            return start  # Spark compares offsets by their text: the same object means no new records
        reached = self._reached(end)
        deletion = newest_deletion(self._store(), end)
        if deletion is not None:
            reached[DELETED] = list(deletion)
        if start.get(INITIAL) or replaced:
            reached[FROM] = begin
        return reached

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._latest < 0 else {OFFSET: self._latest}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        options = self._options
        if OFFSET not in start or OFFSET not in end:
            raise OptionError(FOREIGN_CHECKPOINT)
        begin, reached = int(end.get(FROM, start[OFFSET])), int(end[OFFSET])
        if not self._compared and self._is_replaced(end, read_again=True):
            return []  # planned by an earlier run; the next batch starts with the first record of the new log
        parts = stretches_between(self._store(), begin, reached, options.split_size or STRETCH)
        for low, high in missing(parts, begin, reached):
            data_lost(
                f"{options.path} no longer has its log from physical offset {low} to {high}, it continues there: the "
                "broker deleted the file, or it is truncated",
                options.fail_on_data_loss,
                "continue there",
            )
        if options.table == STRETCHES:
            return [LogPartition(tuple(parts))]
        return [LogPartition(group) for group in tasks_of(parts, options.split_size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, LogPartition):
            yield from read_parts(partition, self._options, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the checkpoint contains the progress, and a store is never written to."""

    def stop(self) -> None:
        """Do nothing, because no file is open."""

    def _store(self) -> Path:
        if self._root is None:
            self._root = store_root(self._options.path)
        return self._root

    def _reached(self, at: int) -> dict[str, Any]:
        """Return the offset of a position, with the mark of the record before it if the log has that record."""
        found = mark_before(segment_files(self._store() / "commitlog"), at)
        return {OFFSET: at} if found is None else {OFFSET: at, LAST: list(found)}

    def _is_replaced(self, offset: dict[str, Any], read_again: bool = False) -> bool:
        """Return whether an offset is from another log. Raises `DataLost` in that case unless loss is allowed."""
        if INITIAL in offset and LAST not in offset:
            return False  # starts at the first record, or at the user's offset, which is not reached yet
        known = Before(*offset[LAST]) if LAST in offset else None
        at = int(offset[OFFSET])
        files = segment_files(self._store() / "commitlog")
        seen = changed(files, at, known, read_again)
        if not seen and DELETED in offset and files and is_undone(self._store(), files[0][0], *offset[DELETED]):
            seen = f"no longer has the deletion of topic {offset[DELETED][0]}"
        if seen:
            data_lost(
                f"{self._options.path} was read up to physical offset {at} and {seen}: the folder was replaced by "
                "another store, or by an older copy of it",
                self._options.fail_on_data_loss,
                "read it from its first record",
            )
        return bool(seen)

    def _end(self) -> int:
        # An idle stream calls this every 10 ms. Read the store at most ten times per second.
        wait = self._asked + ASK_INTERVAL_S - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        self._asked = time.monotonic()
        if self._durable is None:
            self._durable = DurableEnd(self._store(), self._options.durable, self._options.skip_corrupt)
        return self._durable.find()

    def _boundary(self, at: int, end: int) -> int:
        """Return the first record at or after `at`, but at most `end`."""
        found = file_at(segment_files(self._store() / "commitlog"), at)
        if found is not None and at < found[0] + found[2]:
            start, path, size = found
            return at if at == start else min(next_start(str(path), start, size, at), max(end, at))
        return min(at, end)


def stretches_between(root: Path, begin: int, end: int, split_size: int) -> list[Stretch]:
    """Return the existing stretches between two physical offsets, at each of which a record or the filler starts."""
    found: list[Stretch] = []
    for start, path, size in segment_files(root / "commitlog"):
        low, high = max(begin - start, 0), min(end - start, size)
        if low < high:
            whole = Stretch(str(path), start, size, low, high, last=False, known_begin=True, known_end=high < size)
            found += cut(whole, split_size)
    return found


def missing(parts: Sequence[Stretch], begin: int, end: int) -> list[tuple[int, int]]:
    """Return the byte ranges between two physical offsets that no stretch contains. Stretches may overlap."""
    found: list[tuple[int, int]] = []
    for part in parts:
        if part.start + part.begin > begin:
            found.append((begin, part.start + part.begin))
        begin = max(begin, part.start + part.end)
    if begin < end:
        found.append((begin, end))
    return found


def read_parts(
    partition: LogPartition, options: StoreReadOptions, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task over the log, for any table."""
    if options.table == STRETCHES:
        yield stretch_rows(partition.parts, columns)
        return
    read = bad_ranges if options.table == BAD_RANGES else None
    for part in partition.parts:
        try:
            yield from read(part, columns) if read is not None else read_stretch(part, options, columns)
        except FileNotFoundError:
            what = f"{part.path} was deleted by the broker before the read"
            data_lost(what, options.fail_on_data_loss, "continue without it")
    settle()
