"""Sinks: plug-ins that get Arrow batches with the source's columns in Spark's executors.

A sink is created for each task from a `SinkTask`. Spark repeats a failed task, and a batch that was not committed, with
the same `batch` and `partition`; so a sink that names its output after them, and replaces existing output, stores
every message once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from bolide import plugins
from bolide.plugins import SINKS
from bolide.spark.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class SinkTask:
    """The writer: one attempt at one partition of one batch, with the sink's options."""

    options: Mapping[str, str]
    batch: int
    partition: int
    attempt: int

    def only(self, *names: str) -> dict[str, str]:
        """The options, if all of them are among these names. Raises OptionError."""
        for name in self.options:
            if name not in names:
                raise OptionError(f"the option {name} is unknown to this sink, known are {', '.join(names)}")
        return dict(self.options)


class Sink(Protocol):
    """What the entry point returns for a `SinkTask`. If it raises, the task fails, and Spark retries it."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take these messages. Times with a zone are in UTC, whatever the session's zone is."""

    def close(self) -> None:
        """There are no more batches: return once all of them are stored."""

    def abort(self) -> None:
        """The task has failed: leave nothing that readers would find."""


def write_batch(rows: DataFrame, batch: int, name: str, options: Mapping[str, str]) -> int:
    """Pass the rows of one batch to the sink of this name, one task per partition; returns their number."""
    given = dict(options)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        partition, attempt = (context.partitionId(), context.attemptNumber()) if context is not None else (0, 0)
        count = drain(plugins.find(SINKS, name)(SinkTask(given, batch, partition, attempt)), batches)
        yield pa.RecordBatch.from_pydict({"rows": pa.array([count], pa.int64())})

    return sum(row["rows"] for row in rows.mapInArrow(write, "rows long").collect())


def drain(sink: Any, batches: Iterator[pa.RecordBatch]) -> int:
    """Pass all batches of a task to its sink, with times in UTC; returns the number of messages.

    Errors of the sink are raised.
    """
    from bolide.spark.times import in_utc

    count = 0
    try:
        for batch in batches:
            if batch.num_rows:
                sink.write(in_utc(batch))
                count += batch.num_rows
        sink.close()
    except BaseException:
        sink.abort()
        raise
    return count
