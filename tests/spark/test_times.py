"""Times with zones that neither Python nor Arrow knows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bolide.spark.times import in_utc, milliseconds_of

ZONED = pa.timestamp("us", "GMT+8")
UTC = pa.timestamp("us", "UTC")


def _batch(values: dict[str, Any], time: Any) -> pa.RecordBatch:
    inside: Any = pa.struct([("list", pa.list_(time)), ("map", pa.map_(pa.string(), time))])
    return pa.RecordBatch.from_pydict(values, pa.schema([("plain", time), ("inside", inside)]))


def test_each_time_gets_the_zone_utc_and_keeps_its_value() -> None:
    values: dict[str, Any] = {"plain": [1, None], "inside": [{"list": [2, None], "map": [("k", 3)]}, None]}
    made = [_batch(values, time) for time in (ZONED, UTC)]
    assert in_utc(made[0]).equals(made[1])
    assert in_utc(made[1]) is made[1]


def test_times_without_a_zone_stay() -> None:
    batch = pa.RecordBatch.from_pydict({"time": pa.array([1], pa.timestamp("us")), "number": pa.array([1])})
    assert in_utc(batch) is batch


def test_milliseconds_are_rounded_down_on_both_sides_of_1970() -> None:
    times = pa.array([1_999, None, -1, -1_000], ZONED)
    assert milliseconds_of(times).to_pylist() == [1, None, -1, -1]
    assert milliseconds_of(times.slice(2)).to_pylist() == [-1, -1]
    numbers = pa.array([5])
    assert milliseconds_of(numbers) is numbers
