"""Reports the progress of a batch with an unknown number of rows by the tasks of Spark's stages."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from bolide.job_progress import JobProgress
from bolide.spark.session.progress import OnProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S: Final = 0.5


@contextmanager
def stages_shown(spark: SparkSession, what: str, progress: OnProgress) -> Iterator[None]:
    """While the block runs, report the number of finished tasks of all stages so far."""
    over = threading.Event()
    began = time.monotonic()
    tracker = spark.sparkContext.statusTracker()
    totals: dict[int, int] = {}
    done: dict[int, int] = {}
    earlier = set(tracker.getJobIdsForGroup())

    def look_back() -> None:
        """Count the stages that started and ended between two checks."""
        for job_id in sorted(set(tracker.getJobIdsForGroup()) - earlier):
            job = tracker.getJobInfo(job_id)
            for stage_id in job.stageIds if job is not None else ():
                info = tracker.getStageInfo(stage_id)
                if info is not None:
                    totals.setdefault(stage_id, info.numTasks)

    def look() -> None:
        for stage_id in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage_id)
            if info is not None:
                totals[stage_id], done[stage_id] = info.numTasks, info.numCompletedTasks

    def watch() -> None:
        while not over.wait(POLL_S):
            active = set(tracker.getActiveStageIds())
            look()
            # A stage that is no longer active has finished, although its last count is older.
            ready = sum(done[each] if each in active else totals[each] for each in totals)
            if totals and ready < sum(totals.values()):
                progress(JobProgress(what, ready, sum(totals.values()), time.monotonic() - began, "tasks"))

    watcher = threading.Thread(target=watch, name="stages", daemon=True)
    watcher.start()
    try:
        yield
        over.set()
        watcher.join()
        look_back()
        if totals:
            every = sum(totals.values())
            progress(JobProgress(what, every, every, time.monotonic() - began, "tasks"))
    finally:
        over.set()
        watcher.join()
