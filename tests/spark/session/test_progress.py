"""Stages of tasks as the rebuild and the audit run them: what a worker keeps between them."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bolide.spark.session.progress import Runner
from bolide.spark.session.worker_process import settle
from bolide.spark.source.rows import EARLIEST_MS, LATEST_MS, timestamps


@pytest.mark.spark
def test_a_worker_is_spared_what_it_has_loaded(spark: Any) -> None:
    runner = Runner(spark)
    for _ in range(2):
        frozen = runner.each("counting", "files", range(4), lambda _: gc.get_freeze_count(), [1] * 4)
    assert max(frozen) > 10_000
    before = gc.get_freeze_count()  # tests that play a worker may have been in this process
    settle()  # no worker
    assert gc.get_freeze_count() == before
    assert runner.each("none", "files", [], lambda one: one, []) == []


def test_times_too_far_away_are_the_nearest_that_can_be_shown() -> None:
    times = np.array([0, 1_700_000_000_123, -5])
    assert timestamps(times).cast(pa.int64()).to_pylist() == [0, 1_700_000_000_123_000, -5_000]
    far = timestamps(np.array([1 << 62, -(1 << 62)])).cast(pa.int64()).to_pylist()
    assert far == [LATEST_MS * 1000, EARLIEST_MS * 1000]
