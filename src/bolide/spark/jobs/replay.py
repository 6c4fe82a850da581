"""Resends an archive or any rows to a topic, completely or in part, at full speed or at a given rate.

Rows of an old queue are sent to one new queue in their old order, however many queues the topic has now. For an
archive, the job has a checkpoint and resumes where it stopped. A batch of rows is sent without a checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from bolide.spark.errors import OptionError
from bolide.spark.failures import job_failed
from bolide.spark.jobs.archive import PARQUET
from bolide.spark.jobs.resending import COPIES, to_send
from bolide.spark.jobs.running import JobResult, counted, run_query
from bolide.spark.session.progress import OnProgress, no_progress
from bolide.spark.sink.sink_options import EXACTLY_ONCE, LOG_FOLDER
from bolide.spark.source.bad_records import BAD_RECORD

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

FILES_PER_BATCH: Final = 64
SLICES_A_SECOND: Final = 10
NEEDED: Final = ("topic", "broker", "queue_id", "queue_offset", "body", "tags", "keys", "properties", "flag")


def replay(
    spark: SparkSession,
    source: str,
    options: Mapping[str, str],
    *,
    checkpoint: str,
    where: str | None = None,
    topic: str | None = None,
    rate: int = 0,
    original_time: bool = False,
    table_format: str = PARQUET,
    progress: OnProgress = no_progress,
) -> JobResult:
    """Send the rows of the archive at `source` that match `where` (SQL over its columns).

    Skips messages that were archived without a readable body. Each message is sent to `topic`, or to its original
    topic. `rate` is in messages per second (0: no limit). `original_time` keeps the born timestamp, which is otherwise
    the time of the send. `options` are options of the sink. Raises `OptionError` if an option is invalid, and
    `JobFailed` if Spark fails.
    """
    try:
        reader = spark.read.format(table_format)
        stored = spark.table(source) if table_format == "iceberg" else reader.load(source)
        picked = _picked(stored, where)
        total = picked.count()
    except Exception as error:
        raise job_failed(error) from None
    if table_format == "iceberg":
        rows = spark.readStream.format(table_format).table(source)
    else:
        stream = spark.readStream.format(table_format).option("maxFilesPerTrigger", FILES_PER_BATCH)
        rows = (stream.schema(stored.schema) if table_format == PARQUET else stream).load(source)
    picked = _picked(rows, where)
    exactly_once = {name.lower(): value for name, value in options.items()}.get("mode") == EXACTLY_ONCE

    def send(batch: DataFrame, number: int) -> None:
        # Spark cannot sort a stream, so sort each batch, and send it exactly once if that is requested.
        ready = as_replay(batch, topic, rate, original_time)
        writer = ready.write.format("rocketmq").mode("append").options(**COPIES).options(**options)
        if exactly_once:
            writer = writer.options(commitLog=f"{checkpoint.rstrip('/')}/{LOG_FOLDER}", jobId=f"replay-{number}")
        writer.save()

    return run_query(counted(picked).writeStream.foreachBatch(send), checkpoint, "replay", progress, total=total)


def _picked(rows: DataFrame, where: str | None) -> DataFrame:
    """Return the rows to send, without rows that were archived without a readable body."""
    readable = rows.where(f"{BAD_RECORD} IS NULL") if BAD_RECORD in rows.columns else rows
    return readable.where(where) if where else readable


def as_replay(rows: DataFrame, topic: str | None = None, rate: int = 0, original_time: bool = False) -> DataFrame:
    """Convert rows of the source to rows for the sink, in order and at most at `rate`. Raises `OptionError` if a column
    is missing."""
    from pyspark.sql import functions as f

    missing = [name for name in NEEDED if name not in rows.columns]
    if missing:
        raise OptionError(f"a replay needs all columns of the rocketmq source: add column {missing[0]}")
    place: list[Column] = [f.col(name) for name in ("topic", "broker", "queue_id")]
    # A single task keeps the rate exactly. Without a rate, each old queue belongs to one task, to keep its order.
    spread = rows.coalesce(1) if rate else rows.repartition(*place)
    ordered = spread.sortWithinPartitions(*place, "queue_offset")
    more = [f.concat_ws(":", "broker", "queue_id").alias("route_key")]
    if original_time:
        more.append(f.col("born_timestamp"))
    ready = to_send(ordered, f.lit(topic) if topic else f.col("topic"), *more)
    return ready.mapInArrow(_Pace(rate), ready.schema) if rate else ready


class _Pace:
    """Passes rows at a rate, in portions of 0.1 s."""

    def __init__(self, rate: int) -> None:
        self._rate = rate

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return paced(batches, self._rate, time.monotonic, time.sleep)


def paced(
    batches: Iterator[pa.RecordBatch], rate: int, clock: Callable[[], float], sleep: Callable[[float], None]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows, at most `rate` per second since the first."""
    most = max(rate // SLICES_A_SECOND, 1)
    began = clock()
    sent = 0
    for batch in batches:
        for first in range(0, batch.num_rows, most):
            few = batch.slice(first, most)
            wait = began + sent / rate - clock()
            if wait > 0:
                sleep(wait)
            sent += few.num_rows
            yield few
