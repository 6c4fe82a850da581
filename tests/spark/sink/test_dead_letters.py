"""Refused rows in their file: each with the values it had."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from bolide.spark.sink.dead_letters import STAGING, DeadLetters
from bolide.spark.sink.messages import Refusal, Task
from bolide.spark.source.rows import EARLIEST_MS, LATEST_MS


def test_times_are_those_that_readers_of_all_zones_can_show(tmp_path: Path) -> None:
    dead = DeadLetters(str(tmp_path), Task("q", 3, 1))
    times = [None, 253_402_300_799_000, -62_135_596_800_000, 1 << 62, 5]
    for row, time in enumerate(times):
        dead.add(Refusal(row, "T", "why", {"deliver_time": time, "born_timestamp": time}))
    (name,) = dead.close()
    table = pq.read_table(tmp_path / STAGING / name)
    for column in ("deliver_time", "born_timestamp"):
        found = [time.value for time in table.column(column)]
        assert found == [None, LATEST_MS * 1000, EARLIEST_MS * 1000, LATEST_MS * 1000, 5_000]
