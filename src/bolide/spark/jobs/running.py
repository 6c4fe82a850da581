"""Runs the streaming query of a pipeline job to the current end, with progress, stop and resume.

Every job that moves messages is a Structured Streaming query with a checkpoint, so it can be interrupted at any time,
and the same call resumes where the last one stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bolide.job_progress import JobProgress
from bolide.spark.failures import job_failed
from bolide.spark.jobs.alone import one_at_a_time
from bolide.spark.session.progress import OnProgress, no_progress
from bolide.spark.session.session import keep_interrupts
from bolide.spark.source.positions import forms_of
from bolide.spark.source.queues import from_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

OFFSETS_PER_BATCH: Final = 500_000
"""Default size of a micro-batch, large enough for its fixed cost, and small enough to show progress."""
POLL_S: Final = 0.3
COUNTED: Final = "bolide"
"""Name of the count that `counted` adds to a query."""


@dataclass(frozen=True)
class JobResult:
    """The result of a run. To resume an interrupted run, repeat the call with the same checkpoint."""

    messages: int
    """Number of messages that passed the filters."""
    batches: int
    seconds: float
    interrupted: bool
    checkpoint: str


def topic_stream(spark: SparkSession, options: Mapping[str, str], follow: bool = False) -> DataFrame:
    """Return the topics of a job as a stream. Unless `follow`, it ends at the current end of the topics."""
    from bolide.spark import ending_runs

    given = stream_options(options) | ({} if follow else dict(ending_runs.OPTIONS))
    return spark.readStream.format("rocketmq").options(**given).load()


def stream_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a job's stream. It starts at the oldest message by default, with `OFFSETS_PER_BATCH`."""
    given = {name.lower(): value for name, value in options.items()}
    if not any(form.lower() in given for form in forms_of("starting")):
        given["startingoffsets"] = "earliest"
    given.setdefault("maxoffsetspertrigger", str(OFFSETS_PER_BATCH))
    return given


def counted(rows: DataFrame) -> DataFrame:
    """Count rows for `run_query`, because a filter passes fewer rows than the source reads."""
    from pyspark.sql import functions as f

    return rows.observe(COUNTED, f.count(f.lit(1)).alias("rows"))


@one_at_a_time
def run_query(
    writer: DataStreamWriter,
    checkpoint: str,
    what: str,
    progress: OnProgress = no_progress,
    follow: bool = False,
    total: int | None = None,
) -> JobResult:
    """Run a query until all existing messages are processed, or with `follow` until it is interrupted.

    `what` is the name of the job in its progress. `total` is the expected number of rows if the source cannot determine
    it. Raises `JobFailed` with Spark's reason, and `AlreadyRunning` while another run uses the checkpoint.
    """
    from bolide.spark.ending_runs import CONTINUOUS, TRIGGER, ended

    keep_interrupts()
    began = time.monotonic()
    trigger = CONTINUOUS if follow else TRIGGER
    seen = Seen(total or 0, total is not None)
    interrupted = False
    try:
        query = writer.option("checkpointLocation", checkpoint).trigger(**trigger).start()
        try:
            while not ended(query, POLL_S, follow):
                seen.look(query)
                if seen.done < seen.total:
                    progress(JobProgress(what, seen.done, seen.total, time.monotonic() - began, "messages"))
        except KeyboardInterrupt:
            interrupted = True
            query.stop()
        seen.look(query)
    except Exception as error:
        raise job_failed(error) from None
    seconds = time.monotonic() - began
    progress(JobProgress(what, seen.done, seen.done, seconds, "messages"))
    return JobResult(seen.passed, seen.batches, seconds, interrupted, checkpoint)


class Seen:
    """The sum of a query's progress reports, with each batch once. `known` means that `total` is given."""

    def __init__(self, total: int, known: bool) -> None:
        self.rows = 0
        self.passed = 0
        self.batches = 0
        self.total = total
        self._known = known
        self._last = -1
        self._begin: int | None = None

    @property
    def done(self) -> int:
        """Progress in the unit of the total: rows that passed the filters if it is known, else offsets read."""
        return self.passed if self._known else self.rows

    def look(self, query: StreamingQuery) -> None:
        for report in query.recentProgress:
            if report.batchId <= self._last or not report.numInputRows:
                continue
            self._last = report.batchId
            self.batches += 1
            self.rows += int(report.numInputRows)
            count = (report.observedMetrics or {}).get(COUNTED)
            self.passed += int(report.numInputRows if count is None else count.rows)
            if not self._known and report.sources:
                self._extent(report.sources[0])

    def _extent(self, source: Any) -> None:
        """Update the total: the number of offsets between the first batch's start and the newest known end."""
        newest = _sum(source.latestOffset)
        if self._begin is None:
            self._begin = _sum(source.startOffset) or 0
        if newest is not None:
            self.total = max(newest - self._begin, self.rows)


def _sum(text: str | None) -> int | None:
    """Return the sum of the offsets in a JSON position of Bolide's source, or None for other or missing positions."""
    try:
        parsed = json.loads(text or "null")
        return sum(from_json(parsed["queues"], "the progress").values())
    except (KeyError, TypeError, ValueError):
        return None
