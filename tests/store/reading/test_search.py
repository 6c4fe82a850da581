"""Offsets by time: Java's answers of both releases, deleted beginnings, unknown queues."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bolide.store.reading.search import earliest_store_time, offset_by_time, store_time_at
from tests.store.parts import SHAPE, Parts, put_of

VECTORS = json.loads((Path(__file__).parents[2] / "data/protocol/vectors.json").read_text("utf-8"))["search_by_time"]


def filled(root: Path, times: list[int], units: int, shape: Any = SHAPE) -> Parts:
    parts = Parts(root, shape=replace(shape, consume_queue_segment_size=units * 20))
    for time in times:
        parts.append(put_of("T", 0, b"x" * 200), now=time)
    parts.dispatch()
    return parts


@pytest.mark.parametrize("flushed", [True, False])
@pytest.mark.parametrize("case", VECTORS, ids=lambda case: f"{len(case['store_times'])}x{case['units_per_file']}")
def test_javas_answers(tmp_path: Path, case: dict[str, Any], flushed: bool) -> None:
    parts = filled(tmp_path, case["store_times"], case["units_per_file"])
    queue = parts.queues.get("T", 0)
    if flushed:
        parts.queues.flush()
        for path in (tmp_path / "consumequeue/T/0").iterdir():
            os.utime(path, (1_700_000_000, 1_700_000_000))
    for query, lower, upper, nearest in case["rows"]:
        assert offset_by_time(parts.log, queue, query) == lower, query
        assert offset_by_time(parts.log, queue, query, upper=True) == upper, query
        if flushed or len(case["store_times"]) <= case["units_per_file"]:
            assert offset_by_time(parts.log, queue, query, nearest=True) == nearest, query


def test_the_file_of_4x_is_chosen_by_its_change(tmp_path: Path) -> None:
    parts = filled(tmp_path, [1000 * number for number in range(1, 11)], 4)
    parts.queues.flush()
    for number, path in enumerate(sorted((tmp_path / "consumequeue/T/0").iterdir())):
        os.utime(path, (4 * number + 4, 4 * number + 4))
    queue = parts.queues.get("T", 0)
    assert offset_by_time(parts.log, queue, 4000, nearest=True) == 3
    assert offset_by_time(parts.log, queue, 5000, nearest=True) == 4
    assert offset_by_time(parts.log, queue, 99_000, nearest=True) == 9


def test_units_of_deleted_records_count_as_older(tmp_path: Path) -> None:
    parts = filled(tmp_path, [100 * number for number in range(1, 41)], 1000)
    parts.log.segments.delete_before(4096)
    queue = parts.queues.find_or_create("T", 0)
    first = next(number for number in range(40) if (queue.unit(number) or (0,))[0] >= 4096)
    for nearest in (False, True):
        assert offset_by_time(parts.log, queue, 100 * (first + 4), nearest=nearest) == first + 3
    assert offset_by_time(parts.log, queue, 150) == first, "before the minimum is known the first one that is there"
    queue.delete_before(4096)
    assert earliest_store_time(parts.log, queue) == 100 * (first + 1)
    assert offset_by_time(parts.log, queue, 1) == 0, "Java names the first unit of the file"
    assert offset_by_time(parts.log, queue, 100 * (first + 1)) == first
    parts.log.segments.delete_before(1 << 40)
    queue.delete_before(1 << 40)
    assert offset_by_time(parts.log, queue, 1) == 40
    assert earliest_store_time(parts.log, queue) == -1


def test_search_without_messages_has_defaults(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    assert offset_by_time(parts.log, None, 5) == 0
    assert offset_by_time(parts.log, parts.queues.find_or_create("T", 0), 5) == 0
    assert earliest_store_time(parts.log, None) == -1
    assert store_time_at(parts.log, None, 0) == -1
    full = filled(tmp_path / "full", [100, 200], 1000)
    queue = full.queues.get("T", 0)
    assert [store_time_at(full.log, queue, at) for at in (-1, 0, 1, 2)] == [-1, 100, 200, -1]
