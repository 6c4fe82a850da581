"""Spark's part of a streaming query, in memory: its checkpoint as the JSON that Spark keeps, and a sink by batches.

The order is Spark's: `offsets/N` is written before a batch is planned, a batch without `commits/N` is repeated by the
next run with the same offsets, and the file sink leaves out a batch that it has. Readers and partitions travel pickled.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader

from bolide.spark.spark_versions import ReadAllAvailable, ReadLimit

Found = dict[str, Any]
"""A row that a reader returned, by column."""
KILLS = ("", "planned", "read", "sunk", "committed")
"""Where a run may be killed: after `offsets/N`, with the rows read, with the rows in the sink, after `commits/N`."""
MOST_BATCHES = 200


class Killed(Exception):
    """The run ends here, as by SIGKILL: nothing is closed or told."""


@dataclass
class Query:
    """A query: everything that outlives a run of it."""

    reader: Callable[[], Any]
    offsets: dict[int, str] = field(default_factory=dict)
    commits: set[int] = field(default_factory=set)
    sink: dict[int, list[Found]] = field(default_factory=dict)
    write: Callable[[int, Sequence[Found]], None] | None = None
    """What else happens to the rows of a batch before it is committed."""
    open: Any = None
    """The reader of a continuous run."""

    @property
    def rows(self) -> list[Found]:
        """Everything in the sink."""
        return [row for number in sorted(self.sink) for row in self.sink[number]]

    @property
    def reached(self) -> dict[str, Any] | None:
        """The offset after the last committed batch."""
        return json.loads(self.offsets[max(self.commits)]) if self.commits else None

    def run(self, kill: str = "") -> None:
        """Run with AvailableNow to the end, or until killed. Raises the errors of the reader."""
        reader = self.reader()
        try:
            reader.prepareForTriggerAvailableNow()
            self._batches(reader, reader.getDefaultReadLimit(), kill)
        except Killed:
            pass
        finally:
            reader.stop()

    def poll(self) -> None:
        """Let a continuous run read what there is now; the same reader as the last time, if it lives."""
        if self.open is None:
            self.open = self.reader()
        try:
            self._batches(self.open, ReadAllAvailable(), "")
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """The continuous run ends, without a word to its reader."""
        if self.open is not None:
            self.open.stop()
            self.open = None

    def _batches(self, reader: DataSourceStreamReader, limit: ReadLimit, kill: str) -> None:
        planned = max(self.offsets, default=-1)
        number = planned if planned >= 0 and planned not in self.commits else planned + 1
        start = json.loads(self.offsets[number - 1]) if number else reader.initialOffset()
        for _ in range(MOST_BATCHES):
            if number not in self.offsets:
                end = reader.latestOffset(start, limit)
                if json.dumps(end) == json.dumps(start):
                    return
                self.offsets[number] = json.dumps(end)
            end = json.loads(self.offsets[number])
            self._die(kill, "planned")
            if number not in self.sink or self.write is not None:
                rows = self._read(reader, start, end)
                self._die(kill, "read")
                if self.write is not None:
                    self.write(number, rows)
                self.sink[number] = rows
            self._die(kill, "sunk")
            self.commits.add(number)
            self._die(kill, "committed")
            start, number = end, number + 1
        raise AssertionError(f"{MOST_BATCHES} batches, and no end")

    def _read(self, reader: DataSourceStreamReader, start: Found, end: Found) -> list[Found]:
        sent = pickle.dumps(reader)
        rows: list[Found] = []
        for partition in reader.partitions(start, end):
            for batch in pickle.loads(sent).read(pickle.loads(pickle.dumps(partition))):
                rows += batch.to_pylist()
        return rows

    def _die(self, kill: str, point: str) -> None:
        if kill == point:
            raise Killed


def batch_rows(reader: Any) -> list[Found]:
    """The rows of a batch read."""
    sent = pickle.dumps(reader)
    rows: list[Found] = []
    for partition in reader.partitions():
        for batch in pickle.loads(sent).read(pickle.loads(pickle.dumps(partition))):
            rows += batch.to_pylist()
    return rows
