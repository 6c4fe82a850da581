"""Copies topics to another cluster, with the offsets of consumer groups.

A mirrored message is the original plus the property `BOLIDE_MIRROR`: its original broker, queue and offset. The
messages of a queue are sent to one queue, in order, except that other messages may overtake a retry. The property
allows an exact translation of offsets, without a separate table that could be lost or lag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bolide.spark.errors import OptionError
from bolide.spark.failures import job_failed
from bolide.spark.jobs.resending import COPIES, to_send
from bolide.spark.jobs.running import JobResult, counted, run_query, topic_stream
from bolide.spark.session.progress import OnProgress, no_progress
from bolide.spark.source.bad_records import COLUMN, DROP
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.connection import CONNECTION, DEFAULT_GROUP
from bolide.spark.source.queues import EARLIEST, Offsets, Queue
from bolide.spark.source.source_options import read_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MIRRORED: Final = "BOLIDE_MIRROR"
"""Property `broker:queue_id:queue_offset` of a mirrored message. A mirror skips such messages, so that two clusters
that mirror each other do not send messages in a circle."""
PLACE: Final = r"^(.+):(\d+):(\d+)$"


def mirror(
    spark: SparkSession,
    source: Mapping[str, str],
    target: Mapping[str, str],
    *,
    checkpoint: str,
    prefix: str = "",
    follow: bool = False,
    progress: OnProgress = no_progress,
) -> JobResult:
    """Copy the messages since the last run; with `follow` until interrupted.

    `source` are options of a read (`namesrv`, `subscribe`, …), `target` of a write (`namesrv`, `mode`, …). The topics
    must exist at the target, with the same names after `prefix`. Raises `OptionError` if an option is invalid, and
    `JobFailed` if Spark fails.
    """
    if read_options(source, streaming=True).bad_records.mode == COLUMN:
        raise OptionError(f"a mirror cannot send a message without its body: set badRecords to {DROP}, not to {COLUMN}")
    rows = topic_stream(spark, source, follow)
    writer = counted(as_mirrored(rows, prefix)).writeStream.format("rocketmq").options(**COPIES).options(**target)
    return run_query(writer, checkpoint, "mirror", progress, follow)


def as_mirrored(rows: DataFrame, prefix: str = "") -> DataFrame:
    """Convert rows of the source to rows for the sink of the other cluster."""
    from pyspark.sql import functions as f

    place = f.concat_ws(":", "broker", "queue_id", "queue_offset")
    own = rows.where(~f.map_contains_key("properties", MIRRORED))
    marked = own.withColumn("properties", f.map_concat("properties", f.create_map(f.lit(MIRRORED), place)))
    topic: Column = f.concat(f.lit(prefix), "topic") if prefix else f.col("topic")
    route = f.concat_ws(":", "broker", "queue_id").alias("route_key")
    return to_send(marked, topic, route, f.col("message_id"), f.col("born_timestamp"))


@dataclass(frozen=True)
class Translated:
    """The offsets at which a group resumes in the other cluster, by that cluster's queues and topic names."""

    group: str
    offsets: Offsets


def translate_offsets(
    spark: SparkSession,
    source: Mapping[str, str],
    target: Mapping[str, str],
    topics: Sequence[str],
    groups: Sequence[str],
    *,
    prefix: str = "",
    commit: bool = True,
) -> list[Translated]:
    """Translate the groups' committed offsets to offsets of the target. With `commit`, also set them there.

    A group resumes in a queue at the first message that it had not consumed at the source: no message is skipped, but
    some may be redelivered. If all messages of a queue were consumed, the group resumes at the end. Groups should have
    no consumers at the target while this runs. Raises `ClusterUnavailable` if a cluster does not respond, `OptionError`
    if an option is invalid, and `JobFailed` if Spark fails.
    """
    names = [prefix + topic for topic in topics]
    here = Cluster(read_options({**cluster_of(source), "subscribe": ",".join(topics)}))
    found = []
    try:
        with closing(_as_group(target, names, DEFAULT_GROUP)) as there:
            ends = there.latest(there.queues(names))
        placed = mirrored_places(spark, target, names, prefix).persist()
        try:
            for group in groups:
                committed = here.committed(here.queues(topics), group, EARLIEST)
                offsets = {**ends, **_first_open(spark, placed, committed, prefix)}
                if commit:
                    with closing(_as_group(target, names, group)) as there:
                        there.queues(names)
                        there.commit(offsets)
                found.append(Translated(group, offsets))
        finally:
            placed.unpersist()
    except Exception as error:
        raise job_failed(error) from None
    finally:
        here.close()
    return found


def _as_group(target: Mapping[str, str], names: Sequence[str], group: str) -> Cluster:
    return Cluster(read_options({**cluster_of(target), "subscribe": ",".join(names), "group": group}))


def cluster_of(options: Mapping[str, str]) -> dict[str, str]:
    """Return the connection options among `options`."""
    kept = {one.name.lower() for one in CONNECTION}
    return {name: value for name, value in options.items() if name.lower() in kept}


def mirrored_places(spark: SparkSession, target: Mapping[str, str], names: Sequence[str], prefix: str) -> DataFrame:
    """Return the current and the original position of each mirrored message."""
    from pyspark.sql import functions as f

    options = {**cluster_of(target), "subscribe": ",".join(names), "startingOffsets": "earliest"}
    rows = spark.read.format("rocketmq").options(**options).load()
    was = rows.select("topic", "broker", "queue_id", "queue_offset", f.col("properties")[MIRRORED].alias("was"))
    return was.where("was IS NOT NULL").select(
        "topic",
        "broker",
        "queue_id",
        "queue_offset",
        f.substring("topic", len(prefix) + 1, 255).alias("old_topic"),
        f.regexp_extract("was", PLACE, 1).alias("old_broker"),
        f.regexp_extract("was", PLACE, 2).cast("int").alias("old_queue_id"),
        f.regexp_extract("was", PLACE, 3).cast("bigint").alias("old_offset"),
    )


def _first_open(spark: SparkSession, placed: DataFrame, committed: Offsets, prefix: str) -> Offsets:
    """Return, for each queue of the target, the first message whose original a group had not consumed."""
    from pyspark.sql import functions as f

    rows = [(queue.topic, queue.broker, queue.queue_id, offset) for queue, offset in committed.items()]
    at = spark.createDataFrame(rows, "old_topic STRING, old_broker STRING, old_queue_id INT, committed BIGINT")
    joined = placed.join(f.broadcast(at), ["old_topic", "old_broker", "old_queue_id"], "left")
    still_open = joined.where("committed IS NULL OR old_offset >= committed")
    firsts = still_open.groupBy("topic", "broker", "queue_id").agg(f.min("queue_offset").alias("first")).collect()
    return {Queue(row.topic, row.broker, row.queue_id): row.first for row in firsts}
