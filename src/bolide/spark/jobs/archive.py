"""Topics to files partitioned by topic and date, incrementally and exactly once; and one view over files and live log.

Parquet's exactness is Spark's: its file sink lists the files of each batch in a log of its own, and a batch that runs
again replaces its entry. Readers must therefore read the folder as Spark does (`spark.read`), not file by file. Delta
and Iceberg keep the same promise with logs of theirs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from bolide.spark.errors import OptionError
from bolide.spark.jobs.running import JobResult, run_query, topic_stream
from bolide.spark.positions import forms_of
from bolide.spark.progress import Show, nowhere
from bolide.spark.schema import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

PARQUET: Final = "parquet"
CLASSES: Final = {
    "delta": "org.apache.spark.sql.delta.sources.DeltaDataSource",
    "iceberg": "org.apache.iceberg.spark.source.IcebergSource",
}
"""The class by which a table format shows that its package is there."""
PARTITIONS: Final = ("topic", "date")
OF_A_STREAM: Final = frozenset(
    name.lower()
    for name in (
        *forms_of("starting"), *forms_of("ending"), "minOffsetsPerTrigger", "maxOffsetsPerTrigger", "maxTriggerDelay",
        "commitOffsets",
    )
)  # fmt: skip
"""Options of an archive's run that say nothing of the live log behind it."""
DAY_OF: Final = "date_from_unix_date(CAST(floor(unix_seconds(store_timestamp) / 86400) AS INT)) AS date"
"""The day in UTC, whatever the session's time zone: a partition must not depend on who ran the job."""


def archive(
    spark: SparkSession,
    out: str,
    options: Mapping[str, str],
    *,
    table_format: str = PARQUET,
    checkpoint: str | None = None,
    follow: bool = False,
    show: Show = nowhere,
) -> JobResult:
    """Append what the topics hold and the last run did not have to `out`; with `follow` until interrupted.

    `options` are those of `format("rocketmq")`: `namesrv`, `subscribe` or `subscribePattern`, `startingOffsets` (used
    by the first run only; `earliest` here) and so on. `out` is a folder, or for Iceberg the name of a table. The
    checkpoint is `out`/_checkpoint unless given. Raises OptionError and JobFailed.
    """
    messages = topic_stream(spark, options).selectExpr("*", DAY_OF)
    place = checkpoint_of(out, table_format, checkpoint)
    return run_query(_sink(spark, messages, out, table_format), place, "archive", show, follow)


def checkpoint_of(out: str, table_format: str, checkpoint: str | None) -> str:
    """Where the archive's progress is kept. Raises OptionError when it must be named."""
    if checkpoint:
        return checkpoint
    if table_format == "iceberg":
        raise OptionError("an archive in an Iceberg table keeps its checkpoint elsewhere: name a folder for it")
    return out.rstrip("/") + "/_checkpoint"


def read_back(
    spark: SparkSession,
    out: str,
    options: Mapping[str, str],
    *,
    table_format: str = PARQUET,
    checkpoint: str | None = None,
) -> DataFrame:
    """One view: the archive, and behind it what the topics hold now and the archive does not have yet.

    A column `archived` tells which. The seam is the archive's own last batch, so no message is missing or twice, also
    when a run was killed. `options` as for `archive`. Raises OptionError when there is no archive.
    """
    place = checkpoint_of(out, table_format, checkpoint)
    reached = archived_offsets(spark, out, place, table_format)
    if reached is None:
        raise OptionError(f"{out} holds no finished batch of an archive: run the archive first, or check the path")
    columns = list(COLUMNS)
    old = spark.table(out) if table_format == "iceberg" else spark.read.format(table_format).load(out)
    live = {name: value for name, value in options.items() if name.lower() not in OF_A_STREAM}
    new = spark.read.format("rocketmq").options(**live).option("startingOffsets", reached).load()
    return old.selectExpr(*columns, "true AS archived").unionByName(new.selectExpr(*columns, "false AS archived"))


def archived_offsets(spark: SparkSession, out: str, checkpoint: str, table_format: str = PARQUET) -> str | None:
    """Where the archive ends, as JSON offsets; None when it has no finished batch.

    A batch is in a Parquet archive as soon as the sink's log names it, which is a moment before the query's own log
    does; the other formats are asked through the query's log.
    """
    log = f"{out.rstrip('/')}/_spark_metadata" if table_format == PARQUET else f"{checkpoint.rstrip('/')}/commits"
    batches = [int(found[1]) for name in _names(spark, log) if (found := re.fullmatch(r"(\d+)(\.compact)?", name))]
    if not batches:
        return None
    lines = _lines(spark, f"{checkpoint.rstrip('/')}/offsets/{max(batches)}")
    return json.dumps(json.loads(lines[2])["queues"])


def _sink(spark: SparkSession, messages: DataFrame, out: str, table_format: str) -> DataStreamWriter:
    writer = messages.writeStream.format(table_format).partitionBy(*PARTITIONS)
    if table_format == PARQUET:
        return writer.option("path", out)
    if table_format not in CLASSES:
        raise OptionError(f"an archive is kept as parquet, {' or '.join(CLASSES)}, not as {table_format}")
    jvm: Any = spark.sparkContext._jvm
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(CLASSES[table_format])
    except Exception:
        raise OptionError(
            f"this Spark has no {table_format}: start it with its package (spark.jars.packages), or archive as parquet"
        ) from None
    return writer.option("path", out)


def _path(spark: SparkSession, folder: str) -> tuple[Any, Any]:
    """Hadoop's own view of a folder: archives may lie on any file system that Spark reaches."""
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(folder)
    return path, path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())


def _names(spark: SparkSession, folder: str) -> Sequence[str]:
    path, files = _path(spark, folder)
    return [status.getPath().getName() for status in files.listStatus(path)] if files.exists(path) else []


def _lines(spark: SparkSession, file: str) -> list[str]:
    path, files = _path(spark, file)
    stream = files.open(path)
    try:
        return bytes(stream.readAllBytes()).decode().splitlines()
    finally:
        stream.close()
