"""Sinks: where messages go from Spark's executors. Plug-ins by name, handed Arrow batches with the source's columns.

A sink is made for each task from a `SinkTask`. Spark runs a task again that failed, and a batch that was not
committed: `batch` and `partition` are then the same, so a sink whose output carries them in its name, and replaces what
has that name, holds every message once.
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
    """Who writes: one attempt at one partition of one batch, with the sink's options."""

    options: Mapping[str, str]
    batch: int
    partition: int
    attempt: int

    def only(self, *names: str) -> dict[str, str]:
        """The options, when all of them are among these names. Raises OptionError."""
        for name in self.options:
            if name not in names:
                raise OptionError(f"the option {name} means nothing to this sink, known are {', '.join(names)}")
        return dict(self.options)


class Sink(Protocol):
    """What the entry point makes of a `SinkTask`. It may raise, which fails the task: Spark tries it again."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take these messages."""

    def close(self) -> None:
        """No more come: return once all of them are where they belong."""

    def abort(self) -> None:
        """The task has failed: leave nothing that others would read."""


def write_batch(rows: DataFrame, batch: int, name: str, options: Mapping[str, str]) -> int:
    """Hand the rows of one batch to the sink of this name, a task each partition; how many there were."""
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
    """Give a sink all batches of its task; how many messages there were. What it raises is raised on."""
    count = 0
    try:
        for batch in batches:
            if batch.num_rows:
                sink.write(batch)
                count += batch.num_rows
        sink.close()
    except BaseException:
        sink.abort()
        raise
    return count
