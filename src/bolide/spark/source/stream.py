"""`readStream`: the stream reader that Spark calls, for micro-batches between offsets in Spark's checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from bolide.spark.source.cluster import Cluster
from bolide.spark.source.source_options import SourceOptions
from bolide.spark.source.stream_offset import newest_json, read_offset
from bolide.spark.source.stream_run import StreamRun
from bolide.spark.source.tasks import plan, read_partition
from bolide.spark.spark_versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_LOG: Final = logging.getLogger("bolide.spark")


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A micro-batch stream. One object in a process serves a whole run of a query. `read` runs in executors."""

    def __init__(
        self, options: SourceOptions, schema: StructType, connect: Callable[[SourceOptions], Cluster] = Cluster
    ) -> None:
        self._options = options
        self._schema = schema
        self._connect = connect
        self._run: StreamRun | None = None
        self._initial: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_schema": self._schema}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_options"], state["_schema"])  # type: ignore[misc] # without the connections

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self._options
        if options.max_offsets_per_trigger:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._running().end_now()

    def read_until(self, end: dict[str, Any] | None) -> None:
        """Limit the batches of this run to this offset, or remove the limit. For `OlderStream`."""
        if end is None:
            self._running().until = None
        else:
            self._running().end_at(read_offset(end).reached)

    def goes_back(self, start: dict[str, Any], end: dict[str, Any]) -> bool:
        """Return whether a queue of `start` is missing in `end` or has a lower offset there. For `OlderStream`."""
        ends = read_offset(end).reached
        return any(ends.get(queue, -1) < offset for queue, offset in read_offset(start).reached.items())

    def initialOffset(self) -> dict[str, Any]:
        # Spark calls this twice before the first batch. "latest" must not change between the calls.
        if self._initial is None:
            self._initial = self._running().start().to_json()
        return self._initial

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = read_offset(start)
        run = self._running()
        if not begin.initial:
            # Spark requests the next batch only after the previous one is committed in the checkpoint.
            run.tell_group(begin.reached)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else 0
        least = 0 if isinstance(limit, ReadAllAvailable) else self._options.min_offsets_per_trigger
        end = run.next_end(begin, most, least)
        # Spark compares offsets by their text: return the same object if there are no new messages.
        return start if end is None else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        newest = None if self._run is None else self._run.newest
        return None if newest is None else newest_json(newest.ends)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        reached = read_offset(end)
        if reached.initial:
            return []
        run = self._running()
        return plan(run.begins(read_offset(start), reached), reached.reached, run.cluster, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._options, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark calls this a batch late and never for the last batch, so `latestOffset` commits instead."""

    def stop(self) -> None:
        if self._run is not None:
            self._run.cluster.close()
            self._run = None

    def _running(self) -> StreamRun:
        if self._run is None:
            _LOG.info("a streaming query %s", self._options)
            self._run = StreamRun(self._connect(self._options), self._options)
        return self._run
