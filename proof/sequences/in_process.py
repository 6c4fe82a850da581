"""Runs the tasks of a job one after the other in this process, pickled as Spark would: what tasks do is the same."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any


class InProcess:
    """In place of `bolide.spark.session.progress.Runner`."""

    parallelism = 2

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def each(
        self, stage: str, unit: str, tasks: Sequence[Any], run: Callable[[Any], Any], weights: Sequence[int]
    ) -> list[Any]:
        assert len(tasks) == len(weights)
        run = pickle.loads(pickle.dumps(run))
        return [pickle.loads(pickle.dumps(run(pickle.loads(pickle.dumps(task))))) for task in tasks]
