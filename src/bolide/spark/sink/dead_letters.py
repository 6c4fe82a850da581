"""Saves rows that cannot become messages as Parquet files with the reason.

A task writes them to a staging folder, and the commit of its batch moves them to the target folder, so a repeated task
or batch does not save a row twice. Spark ignores folders whose names start with `_`.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from bolide.layout.words import split_keys
from bolide.spark.sink.messages import Refusal, Task
from bolide.spark.source.rows import EARLIEST_MS, LATEST_MS
from bolide.spark.synced_folders import sync_folder

STAGING: Final = "_staging"
ROWS_AT_ONCE: Final = 1_000
_FIELDS: Final[list[tuple[str, pa.DataType]]] = [
    ("topic", pa.string()),
    ("body", pa.binary()),
    ("tags", pa.string()),
    ("keys", pa.list_(pa.string())),
    ("properties", pa.map_(pa.string(), pa.string())),
    ("delay_level", pa.int64()),
    ("deliver_time", pa.timestamp("us", "UTC")),
    ("sharding_key", pa.string()),
    ("queue_id", pa.int64()),
    ("flag", pa.int64()),
    ("route_key", pa.string()),
    ("message_id", pa.string()),
    ("born_timestamp", pa.timestamp("us", "UTC")),
    ("reason", pa.string()),
    ("query", pa.string()),
    ("batch", pa.int64()),
    ("partition", pa.int32()),
    ("row", pa.int64()),
    ("refused_at", pa.timestamp("us", "UTC")),
]
SCHEMA: Final = pa.schema(_FIELDS)
"""Columns of a dead letter: the columns of the sink, the reason, and the position of the row."""


class DeadLetters:
    """The rejected rows of a task."""

    def __init__(self, folder: str, task: Task) -> None:
        self._folder = Path(folder) / STAGING
        self._task = task
        self._rows: list[dict[str, Any]] = []
        self._writer: pq.ParquetWriter | None = None
        self._name = f"{stem(task.query, task.batch)}{task.partition}.{uuid.uuid4().hex}.parquet"
        self.count = 0

    def add(self, refusal: Refusal) -> None:
        """Save a row."""
        self.count += 1
        self._rows.append(_row(refusal, self._task))
        if len(self._rows) >= ROWS_AT_ONCE:
            self._write()

    def close(self) -> list[str]:
        """Finish the file. Returns its name for the driver, or an empty list if no row was rejected."""
        if self._rows:
            self._write()
        if self._writer is None:
            return []
        self._writer.close()
        with (self._folder / self._name).open("rb") as file:
            os.fsync(file.fileno())
        sync_folder(self._folder)
        return [self._name]

    def _write(self) -> None:
        if self._writer is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(str(self._folder / self._name), SCHEMA)
        self._writer.write_table(pa.Table.from_pylist(self._rows, schema=SCHEMA))
        self._rows.clear()


def publish(folder: str, names: Iterable[str]) -> None:
    """Move staged files to the target folder. Skips files that were moved before."""
    moved = False
    for name in names:
        staged = Path(folder) / STAGING / name
        try:
            # The name contains the batch and the partition, but not the attempt, so a second run replaces the file.
            os.replace(staged, Path(folder) / f"{name.rsplit('.', 2)[0]}.parquet")
            moved = True
        except FileNotFoundError:
            continue
    if moved:
        sync_folder(Path(folder))


def discard(folder: str, query: str, batch: int, kept: Iterable[str] = ()) -> None:
    """Delete the staged files of unsuccessful attempts at a batch."""
    staging = Path(folder) / STAGING
    keep = set(kept)
    for path in staging.glob(f"{stem(query, batch)}*"):
        if path.name not in keep:
            path.unlink(missing_ok=True)


def stem(query: str, batch: int) -> str:
    """Return the prefix of the files of a batch. Names of queries do not contain the separator."""
    return f"{query}={batch}="


def _row(refusal: Refusal, task: Task) -> dict[str, Any]:
    values: Mapping[str, Any] = refusal.values
    body, keys = values.get("body"), values.get("keys")
    made = {name: values.get(name) for name in SCHEMA.names}
    made.update(
        topic=refusal.topic,
        body=body.encode() if isinstance(body, str) else body,
        keys=split_keys(keys) if isinstance(keys, str) else keys,
        deliver_time=_time(values.get("deliver_time")),
        born_timestamp=_time(values.get("born_timestamp")),
        reason=refusal.reason,
        query=task.query,
        batch=task.batch,
        partition=task.partition,
        row=refusal.row,
        refused_at=datetime.now(UTC),
    )
    return made


def _time(ms: int | None) -> int | None:
    """Return a time in the unit of the file, limited to the range that all time zones can show, as in reads."""
    return None if ms is None else min(max(ms, EARLIEST_MS), LATEST_MS) * 1000
