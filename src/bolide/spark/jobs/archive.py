"""Topics to files partitioned by topic and date, incrementally and exactly once; and one view over files and live log.

For Parquet, Spark provides exactly once: its file sink lists the files of each batch in a log, and a repeated batch
replaces its entry. Readers must therefore read the folder as Spark does (`spark.read`), not file by file. Delta and
Iceberg give the same guarantee with their own logs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from bolide.spark.errors import OptionError
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
"""The class that shows that the package of a table format is installed."""
PARTITIONS: Final = ("topic", "date")
OF_A_STREAM: Final = frozenset(
    name.lower()
    for name in (
        *forms_of("starting"), *forms_of("ending"), "minOffsetsPerTrigger", "maxOffsetsPerTrigger", "maxTriggerDelay",
        "commitOffsets", "untilNow",
    )
)  # fmt: skip
"""Options of an archive's run that do not apply to the live log after it."""
DAY_OF: Final = "date_from_unix_date(CAST(floor(unix_seconds(store_timestamp) / 86400) AS INT)) AS date"
"""The day in UTC, in any time zone of the session: a partition must not depend on who runs the job."""


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

    `options` are those of `format("rocketmq")`: `namesrv`, `subscribe` or `subscribePattern`, `startingOffsets` (used
    by the first run only; `earliest` here) and so on. `out` is a folder, or for Iceberg the name of a table. The
    checkpoint is `out`/_checkpoint unless given. Raises OptionError and JobFailed.
    """
    messages = topic_stream(spark, options, follow).selectExpr("*", DAY_OF)
    place = checkpoint_of(out, table_format, checkpoint)
    return run_query(_sink(spark, messages, out, table_format), place, "archive", progress, follow)


def checkpoint_of(out: str, table_format: str, checkpoint: str | None) -> str:
    """The folder of the archive's progress. Raises OptionError if it must be given."""
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
    """One view: the archive, and the messages of the topics that are not archived yet.

    The column `archived` distinguishes them. They are joined at the archive's own last batch, so no message is missing
    or repeated, even after a killed run. `options` as for `archive`. This process asks the brokers, also with Spark
    Connect. Raises OptionError if there is no archive, and DataLost for a topic that was deleted and created again.
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
    """Where the archive ends, as JSON offsets; None if it has no finished batch."""
    offset = _archived(spark, out, checkpoint, table_format)
    return None if offset is None else json.dumps(to_json(offset.reached))


def _archived(spark: SparkSession, out: str, checkpoint: str, table_format: str) -> StreamOffset | None:
    """The offset at which the archive ends.

    A batch is in a Parquet archive a moment before it is in the query's own log: if one is planned but not in that log,
    the archive is checked for its rows. For the other formats the query's log decides.
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
    """Whether an archive has messages of the batch that lies between two offsets."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f

    begin = {**({} if reached is None else reached.reached), **ahead.begins}
    rows = [(q.topic, q.broker, q.queue_id, begin.get(q, 0), end) for q, end in ahead.reached.items()]
    kind = "topic STRING, broker STRING, queue_id INT, low BIGINT, high BIGINT"
    try:
        stored = spark.read.parquet(out)
    except AnalysisException as error:
        if error.getCondition() in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            return False  # nothing was written yet
        raise
    both = stored.join(f.broadcast(spark.createDataFrame(rows, kind)), ["topic", "broker", "queue_id"])
    return bool(both.where("queue_offset >= low AND queue_offset < high").take(1))


def where_live_begins(live: Mapping[str, str], offset: StreamOffset) -> str:
    """Where the archive ends, as `startingOffsets`. Raises DataLost for a queue that was created again.

    Queues of the archive that the options no longer select are left out.
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
    return writer.option("path", out)


def _has_class(spark: SparkSession, name: str) -> bool:
    """Whether Spark's JVM finds a class. With Spark Connect this is unknown, and Spark reports what is missing."""
    if not hasattr(spark, "_jvm"):
        return True
    jvm: Any = spark._jvm
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
    except Exception:
        return False
    return True


def _batches(spark: SparkSession, folder: str) -> list[int]:
    """Numbers of the batches in one of a query's logs, on any file system that Spark reaches."""
    from pyspark.errors import AnalysisException

    try:
        # Only the selected columns are read. A folder whose own name begins with _ cannot be loaded directly.
        found = spark.read.format("binaryFile").load(f"{folder}/[0-9]*").select("path").collect()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return []
        raise
    names = [str(row.path).rpartition("/")[2] for row in found]
    return [int(name) for name in names if name.isdecimal()]
