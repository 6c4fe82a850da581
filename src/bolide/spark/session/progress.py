"""Runs tasks of a job on Spark's executors, and reports their progress.

Rows never pass through the JVM: a task and its result are small objects. Large data is written to files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bolide.job_progress import JobProgress
from bolide.spark.session.worker_process import settle

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Answer = TypeVar("Answer")

_POLL_S: Final = 0.5


OnProgress = Callable[[JobProgress], None]
"""Called with the progress of a job, in the thread that started the job."""


def no_progress(_: JobProgress) -> None:
    """Do not show progress."""


def _answer(answer: Future[Any]) -> Any:
    """Return the results of a stage. Raises `JobFailed` with one sentence instead of Spark's tracebacks."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from bolide.spark.failures import job_failed

    try:
        return answer.result()
    except (Py4JError, PySparkException) as error:
        raise job_failed(error) from None


class Runner:
    """Runs stages of tasks one after the other, and reports the progress of each."""

    def __init__(self, spark: SparkSession | SparkContext, progress: OnProgress = no_progress) -> None:
        from pyspark import SparkContext

        context = spark if isinstance(spark, SparkContext) else spark.sparkContext
        self.parallelism = int(context.defaultParallelism)
        self.seconds: dict[str, float] = {}
        """Duration of each finished stage in seconds."""
        self._context = context
        self._progress = progress

    def each(
        self, stage: str, unit: str, tasks: Sequence[Task], run: Callable[[Task], Answer], weights: Sequence[int]
    ) -> list[Answer]:
        """Call `run` for each task in a separate Spark task, and return the results. `weights` are the sizes of the
        tasks in `unit`.

        Raises `JobFailed` if all of Spark's retries of a task failed.
        """
        if not tasks:
            return []
        done = self._context.accumulator(0)
        began = time.monotonic()
        total = sum(weights)

        def one(both: Iterable[tuple[Any, int]]) -> Iterable[Any]:
            for task, weight in both:
                yield run(task)
                done.add(weight)
            settle()

        both = list(zip(tasks, weights, strict=True))
        data = self._context.parallelize(both, len(both)).mapPartitions(one)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(data.collect)
            while True:
                finished = wait([answer], _POLL_S).done
                if finished or done.value < total:  # completion is reported once, with the results
                    self._progress(JobProgress(stage, min(done.value, total), total, time.monotonic() - began, unit))
                if finished:
                    self.seconds[stage] = time.monotonic() - began
                    return list(_answer(answer))
