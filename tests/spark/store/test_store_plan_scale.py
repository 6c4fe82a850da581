"""Planning grows with the store and not faster: ten thousand files, ten thousand queues."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bolide.spark.bench.store import make_store
from bolide.spark.dispatch.dispatch_parts import RUN, PartFile, PartSummary
from bolide.spark.dispatch.dispatch_plan import bundles, queue_tasks
from bolide.spark.store.log_scan import Stretch
from bolide.spark.store.store_plan import STRETCH, cut, packed, plan_stretches, tasks_of

FILE = 4096


def cpu_seconds(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


@pytest.mark.slow
def test_ten_thousand_files_are_few_tasks(tmp_path: Path) -> None:
    make_store(tmp_path / "few", 11 * 1_000, 128, FILE)
    make_store(tmp_path / "many", 11 * 10_000, 128, FILE)
    assert len(list((tmp_path / "many" / "commitlog").iterdir())) == 10_000
    parts = plan_stretches(tmp_path / "many", 1 << 20)
    groups = packed(parts, 1 << 20)
    assert [part for group in groups for part in group] == parts
    assert len(parts) == 10_000
    assert len(groups) == 10_000 * FILE >> 20 or len(groups) == (10_000 * FILE >> 20) + 1
    assert max(sum(part.end - part.begin for part in group) for group in groups) <= 1 << 20
    few = min(cpu_seconds(lambda: plan_stretches(tmp_path / "few", 1 << 20)) for _ in range(3))
    many = min(cpu_seconds(lambda: plan_stretches(tmp_path / "many", 1 << 20)) for _ in range(3))
    assert many < 30 * few


def summaries(queues: int, parts: int) -> list[PartSummary]:
    """As of a log in which every part has records of every queue."""
    found = []
    for number in range(parts):
        runs = np.zeros(queues, RUN)
        runs["topic"] = np.arange(queues) % 100
        runs["queue_id"] = np.arange(queues) // 100
        runs["first"] = 3 * np.arange(queues)
        runs["count"] = 3
        runs["begin"] = 3 * number
        # Topics come in the order in which a part met them.
        topics = tuple(f"topic{(n + number) % 100}" for n in range(100))
        found.append(PartSummary(number, PartFile("", 3 * queues, 28, 0), 3 * queues, topics=topics, runs=runs))
    return found


@pytest.mark.slow
def test_ten_thousand_queues_are_shared_out() -> None:
    parts = summaries(10_000, 20)
    queues = queue_tasks(parts, {})
    assert len({(queue.topic, queue.queue_id) for queue in queues}) == 10_000
    for queue in queues[::997]:
        assert queue.runs["begin"].tolist() == [3 * number for number in range(20)]
        assert queue.runs["part"].tolist() == list(range(20))
    tasks = bundles(parts, {}, 8)
    sizes = [len(task.queues) for task in tasks]
    assert sum(sizes) == 10_000
    assert max(sizes) - min(sizes) <= 1
    few = min(cpu_seconds(lambda: bundles(summaries(1_000, 20), {}, 8)) for _ in range(3))
    many = min(cpu_seconds(lambda: bundles(parts, {}, 8)) for _ in range(3))
    assert many < 30 * few


@pytest.mark.parametrize(("files", "tasks"), [(1, 16), (2, 16), (10, 40)])
def test_a_large_log_is_a_few_large_tasks(files: int, tasks: int) -> None:
    size = 1 << 30
    wholes = [Stretch("", number * size, size, 0, size, last=False) for number in range(files)]
    parts = [part for whole in wholes for part in cut(whole, STRETCH)]
    groups = tasks_of(parts)
    assert [part for group in groups for part in group] == parts
    assert len(groups) == tasks
    assert tasks_of(parts, STRETCH) == [(part,) for part in parts]


@pytest.mark.parametrize("split_size", [1, 4096, 1 << 30])
def test_packing_keeps_the_order(tmp_path: Path, split_size: int) -> None:
    make_store(tmp_path, 110, 128, FILE)
    parts = plan_stretches(tmp_path, 1 << 20)
    groups = packed(parts, split_size)
    assert [part for group in groups for part in group] == parts
    assert len(groups) == (1 if split_size == 1 << 30 else len(parts))
