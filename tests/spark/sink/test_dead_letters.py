"""Refused rows in their file: each with the values it had."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from bolide.spark.sink.dead_letters import MOST_MS, STAGING, DeadLetters
from bolide.spark.sink.messages import Refusal, Task


def test_rows_keep_times_of_all_years(tmp_path: Path) -> None:
    dead = DeadLetters(str(tmp_path), Task("q", 3, 1))
    times = [None, 253_402_300_799_000, -62_135_596_800_000, 1 << 62]
    for row, time in enumerate(times):
        dead.add(Refusal(row, "T", "why", {"deliver_time": time, "born_timestamp": time}))
    (name,) = dead.close()
    table = pq.read_table(tmp_path / STAGING / name)
    for column in ("deliver_time", "born_timestamp"):
        found = [time.value for time in table.column(column)]
        assert found == [None if time is None else min(time, MOST_MS) * 1000 for time in times]
