"""Passes the messages of topics since the last run to a plug-in or a built-in sink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bolide import plugins
from bolide.spark.jobs.running import JobResult, run_query, topic_stream
from bolide.spark.jobs.sinks import write_batch
from bolide.spark.session.progress import OnProgress, no_progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def feed(
    spark: SparkSession,
    sink: str,
    options: Mapping[str, str],
    sink_options: Mapping[str, str],
    *,
    checkpoint: str,
    follow: bool = False,
    progress: OnProgress = no_progress,
) -> JobResult:
    """Pass messages to a sink in Arrow batches; with `follow` until interrupted.

    `options` are options of `format("rocketmq")`, `sink_options` of the sink. The checkpoint stores the progress: an
    unfinished batch is repeated with the same number. Raises `ConfigError` if the sink is unknown, and `JobFailed` if
    Spark or the sink fails.
    """
    plugins.find(plugins.SINKS, sink)  # reject an unknown sink before Spark starts
    messages = topic_stream(spark, options, follow)

    def hand_over(rows: DataFrame, batch: int) -> None:
        write_batch(rows, batch, sink, sink_options)

    return run_query(messages.writeStream.foreachBatch(hand_over), checkpoint, "feed", progress, follow)
