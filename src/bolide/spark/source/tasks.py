"""From offsets to Spark's tasks, for batch reads and streams, and the work of a task in an executor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from bolide.spark.session.worker_process import settle
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.members import BrokerMembers
from bolide.spark.source.queues import Offsets
from bolide.spark.source.ranges import Range, split, within
from bolide.spark.source.rows import read_range
from bolide.spark.source.source_options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass
class RangePartition(InputPartition):
    """One task: a range, and where its broker is."""

    part: Range
    members: BrokerMembers

    def __post_init__(self) -> None:
        super().__init__(None)


@dataclass
class PointsPartition(InputPartition):
    """One task: single messages of one broker's queues."""

    parts: tuple[Range, ...]
    members: BrokerMembers

    def __post_init__(self) -> None:
        super().__init__(None)


def plan(begin: Offsets, end: Offsets, cluster: Cluster, options: SourceOptions) -> list[InputPartition]:
    """Tasks for everything between two offsets that passes the filters on offsets."""
    low, high = options.filters.offset_from, options.filters.offset_to
    begin, end = within(begin, low, high), within(end, low, high)
    ranges = split(begin, end, options.max_records_per_partition, options.min_partitions)
    return [RangePartition(part, cluster.members(part.queue.broker)) for part in ranges]


def read_partition(partition: InputPartition, options: SourceOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of one task; Spark plans one empty partition if there are no tasks."""
    if isinstance(partition, RangePartition):
        yield from read_range(partition.part, partition.members, options, schema)
    elif isinstance(partition, PointsPartition):
        for part in partition.parts:
            yield from read_range(part, partition.members, options, schema)
    settle()
