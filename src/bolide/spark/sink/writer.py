"""The sinks that Spark loads: `df.write` and `df.writeStream` with `format("rocketmq")`.

Both pass rows to `task_writing` in executors and messages to `committing` on the driver. Spark creates two writers for
every batch of a stream, for its tasks and for its commit. They share only the results of the tasks.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from bolide.spark.errors import OptionError
from bolide.spark.sink.batch_log import decided_batches
from bolide.spark.sink.committing import PARTS, CommitParts, abort_batch, commit_batch
from bolide.spark.sink.messages import Task
from bolide.spark.sink.sink_options import SinkOptions, check_columns, sink_options
from bolide.spark.sink.task_writing import Written, write_rows
from bolide.spark.spark_versions import DataSourceStreamArrowWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_LOG: Final = logging.getLogger("bolide.spark")
ONLY_BATCH: Final = 0
"""Number of the batch of a batch write outside `foreachBatch`."""


class BatchWriter(DataSourceArrowWriter):
    """A write of a DataFrame. It is pickled once, so that all its tasks share its name."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._query = f"job-{options.job_id or uuid.uuid4().hex}"
        self._decided = decided_batches(options.commit_log) if options.commit_log else frozenset()

    def write(  # type: ignore[override] # Spark's own Arrow writer narrows it the same way
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        task = Task.current(self._query, self._query if self._options.exactly_once else self._options.topic)
        if self._options.exactly_once and not self._options.job_id and task.query != self._query:
            raise OptionError(
                "foreachBatch may repeat this write, and mode=exactly-once then needs its log: set commitLog to a "
                'folder that outlives the driver, and jobId to a name with the number of the batch, e.g. f"orders-{n}"'
            )
        return self.write_task(iterator, task)

    def write_task(self, batches: Iterator[pa.RecordBatch], task: Task) -> WriterCommitMessage:
        """Like `write`, for a task with a given identity."""
        return write_rows(batches, self._options, task, self._decided)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit_batch(self._options, messages, _batch_of(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort_batch(self._options, messages, _batch_of(messages))


def _batch_of(messages: list[WriterCommitMessage | None]) -> int:
    """Return the batch of the tasks of a write. It is known only in tasks: in `foreachBatch`, the query's batch."""
    return next((each.task.batch for each in messages if isinstance(each, Written)), ONLY_BATCH)


class StreamWriter(DataSourceStreamArrowWriter):
    """A micro-batch of a query."""

    def __init__(self, options: SinkOptions, parts: CommitParts = PARTS) -> None:
        self._options = options
        self._parts = parts
        self._decided = decided_batches(options.commit_log) if options.commit_log else frozenset()

    def write(  # type: ignore[override] # Spark's own Arrow writer narrows it the same way
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        return self.write_task(iterator, Task.current("query"))

    def write_task(self, batches: Iterator[pa.RecordBatch], task: Task) -> WriterCommitMessage:
        """Like `write`, for a task with a given identity."""
        return write_rows(batches, self._options, task, self._decided)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        commit_batch(self._options, messages, batchId, self._parts)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        abort_batch(self._options, messages, batchId)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """Return the sink of a `df.write`. Raises `OptionError` if options or columns are invalid."""
    if overwrite:
        raise OptionError('a topic cannot be overwritten: use .mode("append")')
    checked = sink_options(options)
    check_columns(schema, checked)
    _LOG.info("a job %s", checked)
    return BatchWriter(checked)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """Return the sink of a micro-batch. Raises `OptionError` if options or columns are invalid."""
    if overwrite:
        raise OptionError('a topic cannot be overwritten: use .outputMode("append") or "update"')
    checked = sink_options(options, streaming=True)
    check_columns(schema, checked)
    _LOG.debug("a micro-batch %s", checked)
    return StreamWriter(checked)
