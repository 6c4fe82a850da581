"""Archives topics to files by topic and date, incrementally and exactly once, and reads archive and live log together.

For Parquet, Spark provides exactly once: its file sink lists the files of each batch in a log, and a repeated batch
replaces its entry. Readers must therefore read the folder with Spark (`spark.read`), not file by file. Delta and
Iceberg give the same guarantee with their own logs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from bolide.spark.errors import OptionError
from bolide.spark.failures import sentences
from bolide.spark.jobs.running import JobResult, run_query, topic_stream
from bolide.spark.session.progress import OnProgress, no_progress
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.data_loss import data_lost
from bolide.spark.source.last_read import look
from bolide.spark.source.marks import changed
from bolide.spark.source.positions import forms_of
from bolide.spark.source.queues import EARLIEST, to_json
from bolide.spark.source.schema import COLUMNS
from bolide.spark.source.source_options import read_options
from bolide.spark.source.stream_offset import StreamOffset, read_offset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

PARQUET: Final = "parquet"
CLASSES: Final = {
    "delta": "org.apache.spark.sql.delta.sources.DeltaDataSource",
    "iceberg": "org.apache.iceberg.spark.source.IcebergSource",
}
"""Class of each table format that exists if its package is installed."""
PARTITIONS: Final = ("topic", "date")
OF_A_STREAM: Final = frozenset(
    name.lower()
    for name in (
        *forms_of("starting"), *forms_of("ending"), "minOffsetsPerTrigger", "maxOffsetsPerTrigger", "maxTriggerDelay",
        "commitOffsets", "untilNow",
    )
)  # fmt: skip
"""Options of an archive's run that do not apply to the later live log."""
DAY_OF: Final = "date_from_unix_date(CAST(floor(unix_seconds(store_timestamp) / 86400) AS INT)) AS date"
"""SQL for the day in UTC in any time zone of the session: a partition must not depend on the user's session."""


def archive(
    spark: SparkSession,
    out: str,
    options: Mapping[str, str],
    *,
    table_format: str = PARQUET,
    checkpoint: str | None = None,
    follow: bool = False,
    progress: OnProgress = no_progress,
) -> JobResult:
    """Append the messages since the last run to `out`; with `follow` until interrupted.

    `options` are options of `format("rocketmq")`: `namesrv`, `subscribe` or `subscribePattern`, `startingOffsets` (only
    for the first run, default `earliest`) and so on. `out` is a folder, or for Iceberg the name of a table. The default
    checkpoint is `out`/_checkpoint. Raises `OptionError` if an option is invalid, and `JobFailed` if Spark fails.
    """
    messages = topic_stream(spark, options, follow).selectExpr("*", DAY_OF)
    place = checkpoint_of(out, table_format, checkpoint)
    return run_query(_sink(spark, messages, out, table_format), place, "archive", progress, follow)


def checkpoint_of(out: str, table_format: str, checkpoint: str | None) -> str:
    """Return the folder of the archive's progress. Raises `OptionError` if it is required but not given."""
    if checkpoint:
        return checkpoint
    if table_format == "iceberg":
        raise OptionError("an archive in an Iceberg table needs a separate checkpoint: name a folder for it")
    return out.rstrip("/") + "/_checkpoint"


def read_back(
    spark: SparkSession,
    out: str,
    options: Mapping[str, str],
    *,
    table_format: str = PARQUET,
    checkpoint: str | None = None,
) -> DataFrame:
    """Return one view over the archive and the messages of its topics that are not archived yet.

    The column `archived` distinguishes them. They are joined at the archive's last batch, so no message is missing or
    duplicated, even after a killed run. `options` are the same as for `archive`. This process queries the brokers, also
    with Spark Connect. Raises `OptionError` if there is no archive, and `DataLost` if a topic was recreated.
    """
    place = checkpoint_of(out, table_format, checkpoint)
    reached = _archived(spark, out, place, table_format)
    if reached is None:
        raise OptionError(f"{out} contains no finished batch of an archive: run the archive first, or check the path")
    columns = list(COLUMNS)
    old = spark.table(out) if table_format == "iceberg" else spark.read.format(table_format).load(out)
    live = {name: value for name, value in options.items() if name.lower() not in OF_A_STREAM}
    begin = where_live_begins(live, reached)
    new = spark.read.format("rocketmq").options(**live).option("startingOffsets", begin).load()
    return old.selectExpr(*columns, "true AS archived").unionByName(new.selectExpr(*columns, "false AS archived"))


def archived_offsets(spark: SparkSession, out: str, checkpoint: str, table_format: str = PARQUET) -> str | None:
    """Return the end of the archive as JSON offsets, or None if it has no finished batch."""
    offset = _archived(spark, out, checkpoint, table_format)
    return None if offset is None else json.dumps(to_json(offset.reached))


def _archived(spark: SparkSession, out: str, checkpoint: str, table_format: str) -> StreamOffset | None:
    """Return the end offset of the archive, or None if it has no finished batch.

    A batch is in a Parquet archive shortly before it is in the query's log: if a batch is planned but not in that log,
    this checks the archive for its rows. For other formats, the query's log decides.
    """
    place = checkpoint.rstrip("/")
    done = max(_batches(spark, f"{place}/commits"), default=-1)
    planned = max(_batches(spark, f"{place}/offsets"), default=-1)
    reached = _offset(spark, place, done) if done >= 0 else None
    if planned > done and table_format == PARQUET:
        ahead = _offset(spark, place, planned)
        if _holds(spark, out, reached, ahead):
            return ahead
    return reached


def _offset(spark: SparkSession, checkpoint: str, batch: int) -> StreamOffset:
    (whole,) = spark.read.text(f"{checkpoint}/offsets/{batch}", wholetext=True).collect()
    return read_offset(json.loads(str(whole.value).splitlines()[2]))


def _holds(spark: SparkSession, out: str, reached: StreamOffset | None, ahead: StreamOffset) -> bool:
    """Return whether an archive has messages of the batch between two offsets."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f

    begin = {**({} if reached is None else reached.reached), **ahead.begins}
    rows = [(q.topic, q.broker, q.queue_id, begin.get(q, 0), end) for q, end in ahead.reached.items()]
    kind = "topic STRING, broker STRING, queue_id INT, low BIGINT, high BIGINT"
    try:
        stored = spark.read.parquet(out)
    except AnalysisException as error:
        if error.getCondition() in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            return False  # the archive does not exist yet
        raise
    both = stored.join(f.broadcast(spark.createDataFrame(rows, kind)), ["topic", "broker", "queue_id"])
    return bool(both.where("queue_offset >= low AND queue_offset < high").take(1))


def where_live_begins(live: Mapping[str, str], offset: StreamOffset) -> str:
    """Return the end of the archive as `startingOffsets`. Raises `DataLost` if a queue was recreated.

    Omits queues of the archive that the options no longer select.
    """
    options = read_options(live)
    marks = offset.marks
    reached = {queue: at for queue, at in offset.reached.items() if options.selection.keeps(queue)}
    with closing(Cluster(options)) as cluster:
        there = set(cluster.selected(tolerant=True))
        read = {queue: reached[queue] for queue in marks if queue in there}
        for queue, seen in changed(read, marks, look(cluster, options.group, read)).items():
            data_lost(
                f"{queue} was archived up to offset {read[queue]} and {seen}: its topic was deleted and created again, "
                "or its broker lost messages",
                options.fail_on_data_loss,
                "read it from its first message",
            )
            reached[queue] = EARLIEST
    return json.dumps(to_json(reached))


def _sink(spark: SparkSession, messages: DataFrame, out: str, table_format: str) -> DataStreamWriter:
    writer = messages.writeStream.format(table_format).partitionBy(*PARTITIONS)
    if table_format == PARQUET:
        return writer.option("path", out)
    if table_format not in CLASSES:
        raise OptionError(f"an archive is written as parquet, {' or '.join(CLASSES)}, not as {table_format}")
    if not _has_class(spark, CLASSES[table_format]):
        raise OptionError(
            f"this Spark has no {table_format}: start it with its package (spark.jars.packages), or archive as parquet"
        )
    if table_format == "iceberg":
        with sentences():
            create_table(spark, messages, out, table_format)
        # Without this, Iceberg rejects a task whose rows are not sorted by topic and day.
        writer = writer.option("fanout-enabled", "true")
    return writer.option("path", out)


def create_table(spark: SparkSession, messages: DataFrame, name: str, table_format: str) -> None:
    """Create an empty table for these columns unless it exists, because a stream does not create a table of Iceberg."""
    from pyspark.sql.functions import col

    if spark.catalog.tableExists(name):
        return
    empty = spark.createDataFrame([], messages.schema).writeTo(name).using(table_format)
    empty.partitionedBy(*map(col, PARTITIONS)).create()


def _has_class(spark: SparkSession, name: str) -> bool:
    """Return whether Spark's JVM finds a class. True with Spark Connect, where Spark itself reports a missing one."""
    if not hasattr(spark, "_jvm"):
        return True
    jvm: Any = spark._jvm
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
    except Exception:
        return False
    return True


def _batches(spark: SparkSession, folder: str) -> list[int]:
    """Return the numbers of the batches in a log of a query, on any file system that Spark supports."""
    from pyspark.errors import AnalysisException

    try:
        # Reads only the selected columns. Spark cannot load a folder whose name starts with _ directly.
        found = spark.read.format("binaryFile").load(f"{folder}/[0-9]*").select("path").collect()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return []
        raise
    names = [str(row.path).rpartition("/")[2] for row in found]
    return [int(name) for name in names if name.isdecimal()]
