"""Tasks of a job on Spark's executors, with their progress while they run.

Rows never pass through the JVM here: a task and its result are small objects. Large data goes into files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bolide.spark.session.worker_process import settle

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Answer = TypeVar("Answer")

_POLL_S: Final = 0.5


@dataclass(frozen=True)
class JobProgress:
    """The progress of a stage: `done` of `total`, in `unit`, and the seconds since it began."""

    stage: str
    done: int
    total: int
    seconds: float
    unit: str = "files"
    """`bytes`, or a word to show."""

    @property
    def rate(self) -> float:
        """Done per second."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float:
        """The remaining time at this rate; 0 while it is unknown."""
        return (self.total - self.done) / self.rate if self.rate > 0 else 0.0


OnProgress = Callable[[JobProgress], None]
"""Called with the progress of a job, in the thread that started the job."""


def no_progress(_: JobProgress) -> None:
    """Shows nothing."""


def _answer(answer: Future[Any]) -> Any:
    """The results of a stage; if a task failed finally, one sentence instead of Spark's traces."""
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
        """The seconds of each finished stage."""
        self._context = context
        self._progress = progress

    def each(
        self, stage: str, unit: str, tasks: Sequence[Task], run: Callable[[Task], Answer], weights: Sequence[int]
    ) -> list[Answer]:
        """The result of `run` for each task, each in a Spark task; `weights` say how much of `unit` each task is.

        Raises JobFailed if a task failed as often as Spark retries it.
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
                if finished or done.value < total:  # all of it is told once, when the answers are here
                    self._progress(JobProgress(stage, min(done.value, total), total, time.monotonic() - began, unit))
                if finished:
                    self.seconds[stage] = time.monotonic() - began
                    return list(_answer(answer))
