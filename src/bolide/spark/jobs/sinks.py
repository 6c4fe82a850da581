"""Sinks: plug-ins that receive Arrow batches with the source's columns in Spark's executors.

Each task creates a sink from a `SinkTask`. Spark repeats a failed task, and a batch that was not committed, with the
same `batch` and `partition`. So a sink that uses them in the name of its output, and replaces existing output, stores
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
    """An attempt to write a partition of a batch, with the sink's options."""

    options: Mapping[str, str]
    batch: int
    partition: int
    attempt: int

    def only(self, *names: str) -> dict[str, str]:
        """Return the options. Raises `OptionError` if one is not among these names."""
        for name in self.options:
            if name not in names:
                raise OptionError(f"the option {name} is unknown to this sink: use one of {', '.join(names)}")
        return dict(self.options)


class Sink(Protocol):
    """A sink, which the entry point returns for a `SinkTask`. If it raises, the task fails and Spark retries it."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write messages. Times with a zone are in UTC, whatever the session's zone is."""

    def close(self) -> None:
        """Called after the last batch. Must not return before all batches are stored."""

    def abort(self) -> None:
        """Called if the task has failed. Must remove all output that readers would find."""


def write_batch(rows: DataFrame, batch: int, name: str, options: Mapping[str, str]) -> int:
    """Pass the rows of a batch to a sink, with one task per partition. Returns the number of rows."""
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
    """Pass all batches of a task to its sink, with times in UTC. Returns the number of messages.

    Raises the errors of the sink.
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
