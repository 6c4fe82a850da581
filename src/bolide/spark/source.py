"""`format("rocketmq")`: the data source that Spark meets. Options are refused here, before a cluster is asked.

Spark pickles these objects between its planner, source and worker processes, so they hold options and plain data only;
connections are made where they are used. `pushFilters` is deliberately not overridden: PySpark 4.3 keeps a pushed
filter on the shared relation and gives wrong rows to the next query on it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from bolide.spark.cluster import Cluster
from bolide.spark.errors import OptionError
from bolide.spark.options import SourceOptions, read_options, write_options
from bolide.spark.queues import EARLIEST, LATEST, Offsets, from_json, to_json
from bolide.spark.ranges import Range, limit_offsets, split
from bolide.spark.rows import read_range
from bolide.spark.schema import DDL, check_schema
from bolide.spark.writer import BatchWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

QUEUES = "queues"
FROM = "from"
"""Key of an end offset that carries the start of the first batch: Spark asks anew for it when it replays that batch."""
INITIAL = "initial"
ASK_INTERVAL_S = 0.1


@dataclass
class RangePartition(InputPartition):
    """One task: a range, and where its broker is."""

    part: Range
    addresses: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__init__(None)


class RocketMQDataSource(DataSource):
    """Reads and writes topics of a RocketMQ cluster, Bolide's or Java's."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> str:
        return DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        return RocketMQReader(read_options(self.options), check_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return RocketMQStreamReader(read_options(self.options, streaming=True), check_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise OptionError('a topic cannot be overwritten: use .mode("append")')
        return BatchWriter(write_options(self.options), schema.fieldNames())


class RocketMQReader(DataSourceReader):
    """A batch read: the end is fixed when it is planned."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        cluster = Cluster(self._options)
        try:
            queues = cluster.queues(self._options.topics)
            begin = cluster.resolve(self._options.starting, queues, EARLIEST)
            end = cluster.resolve(self._options.ending, queues, LATEST)
            floor = cluster.earliest(queues)
            begin = {queue: max(offset, floor[queue]) for queue, offset in begin.items()}
            return plan(begin, end, cluster, self._options)
        finally:
            cluster.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._options, self._columns)


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A micro-batch stream. Lives in one process for a whole run of a query; `read` runs in executors."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._cluster: Cluster | None = None
        self._initial: dict[str, Any] | None = None
        self._latest: Offsets | None = None
        self._until: Offsets | None = None
        self._asked = -ASK_INTERVAL_S

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_columns": self._columns}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_options"], state["_columns"])  # type: ignore[misc] # connections stay behind

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_offsets_per_trigger
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = self._ask_latest()

    def initialOffset(self) -> dict[str, Any]:
        # Spark asks twice before the first batch; "latest" must not move in between.
        if self._initial is None:
            cluster = self._connected()
            queues = cluster.queues(self._options.topics)
            start = cluster.resolve(self._options.starting, queues, LATEST)
            floor = cluster.earliest(queues)
            start = {queue: max(offset, floor[queue]) for queue, offset in start.items()}
            self._initial = {INITIAL: True, QUEUES: to_json(start)}
        return self._initial

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = self._with_new_queues(offsets_of(start))
        latest = self._until if self._until is not None else self._ask_latest()
        self._latest = latest
        # A queue that a name server does not name for a moment keeps its place; one that went back never moves back.
        ahead = {queue: max(offset, begin.get(queue, 0)) for queue, offset in {**begin, **latest}.items()}
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else 0
        end = limit_offsets(begin, ahead, most)
        if end == offsets_of(start):
            return start  # Spark compares offsets by their text: the same object says that nothing is new
        reached: dict[str, Any] = {QUEUES: to_json(end)}
        if start.get(INITIAL):
            reached[FROM] = start[QUEUES]
        return reached

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._latest is None else {QUEUES: to_json(self._latest)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin = from_json(end[FROM], "the checkpoint") if FROM in end else offsets_of(start)
        cluster = self._connected()
        cluster.queues(self._options.topics)
        reached = offsets_of(end)
        fresh = [queue for queue in reached if queue not in begin]
        if fresh:
            begin = {**begin, **cluster.earliest(fresh)}
        return plan(begin, reached, cluster, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._options, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        """The checkpoint is the truth; nothing is told to the brokers."""

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _connected(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(self._options)
        return self._cluster

    def _ask_latest(self) -> Offsets:
        # An idle stream polls every 10 ms; brokers are asked ten times a second at most.
        wait = self._asked + ASK_INTERVAL_S - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        self._asked = time.monotonic()
        cluster = self._connected()
        return cluster.latest(cluster.queues(self._options.topics))

    def _with_new_queues(self, begin: Offsets) -> Offsets:
        """Queues that came up since the last batch are read from their first message."""
        cluster = self._connected()
        fresh = [queue for queue in cluster.queues(self._options.topics) if queue not in begin]
        return {**begin, **cluster.earliest(fresh)} if fresh else begin


def offsets_of(offset: dict[str, Any]) -> Offsets:
    """The queues of a stream offset."""
    return from_json(offset[QUEUES], "the checkpoint")


def plan(begin: Offsets, end: Offsets, cluster: Cluster, options: SourceOptions) -> list[InputPartition]:
    """Tasks for everything between two offsets."""
    ranges = split(begin, end, options.max_records_per_partition)
    return [RangePartition(part, cluster.addresses[part.queue.broker]) for part in ranges]


def read_partition(
    partition: InputPartition, options: SourceOptions, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """The rows of one task; Spark hands out an empty partition when there are none at all."""
    if isinstance(partition, RangePartition):
        yield from read_range(partition.part, partition.addresses, options, columns)
