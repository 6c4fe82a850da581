"""Plans Spark's tasks from offsets, for batch reads and streams, and executes a task in an executor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from bolide.spark.session.worker_process import settle
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.members import BrokerMembers
from bolide.spark.source.queues import Offsets
from bolide.spark.source.ranges import Range, packed, split, within
from bolide.spark.source.source_options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass
class RangePartition(InputPartition):
    """A task that reads a range. Contains the addresses of its broker."""

    part: Range
    members: BrokerMembers

    def __post_init__(self) -> None:
        super().__init__(None)


@dataclass
class RangesPartition(InputPartition):
    """A task that reads ranges of several queues one after the other."""

    parts: tuple[Range, ...]
    members: dict[str, BrokerMembers]
    """Addresses by broker name."""

    def __post_init__(self) -> None:
        super().__init__(None)


def plan(begin: Offsets, end: Offsets, cluster: Cluster, options: SourceOptions) -> list[InputPartition]:
    """Return the tasks for the messages between two offsets that pass the filters on offsets."""
    low, high = options.filters.offset_from, options.filters.offset_to
    begin, end = within(begin, low, high), within(end, low, high)
    ranges = split(begin, end, options.max_records_per_partition, options.min_partitions)
    return [_task(parts, cluster) for parts in packed(ranges, options.min_partitions)]


def _task(parts: tuple[Range, ...], cluster: Cluster) -> InputPartition:
    if len(parts) == 1:
        return RangePartition(parts[0], cluster.members(parts[0].queue.broker))
    brokers = {part.queue.broker for part in parts}
    return RangesPartition(parts, {broker: cluster.members(broker) for broker in brokers})


def read_partition(partition: InputPartition, options: SourceOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task. Spark plans an empty partition if there are no tasks."""
    from bolide.spark.source.rows import read_range, read_ranges  # planners do not read, and start faster without it

    if isinstance(partition, RangePartition):
        yield from read_range(partition.part, partition.members, options, schema)
    elif isinstance(partition, RangesPartition):
        yield from read_ranges(partition.parts, partition.members, options, schema)
    settle()
