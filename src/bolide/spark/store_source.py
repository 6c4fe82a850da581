"""`format("rocketmq-store")`: a store folder of Bolide or of RocketMQ as rows, with no broker.

Only the CommitLog is believed; queue files, where present, say which parts of it can be left out. A task reads a
stretch of one file: records prove where they begin (`log_scan`), so a file of 1 GiB is read by many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from bolide.layout.columns import RecordColumns
from bolide.layout.delay import SCHEDULE_TOPIC
from bolide.layout.sysflag import TRANSACTION_MASK, TRANSACTION_PREPARED
from bolide.spark.errors import CorruptStore
from bolide.spark.log_scan import BadRange, Found, Stretch, scan
from bolide.spark.rows import ROWS_PER_BATCH, column_of
from bolide.spark.schema import arrow_schema, check_schema
from bolide.spark.store_options import StoreOptions, store_options
from bolide.spark.store_plan import plan_stretches, store_root, with_topics
from bolide.spark.store_tables import BAD_RANGES, MESSAGES, TABLES, read_table, table_files

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
WHEEL_TOPIC: Final = "rmq_sys_wheel_timer"
_compute: Any = pc  # its stubs do not know plain values as scalars


@dataclass
class LogPartition(InputPartition):
    """One task over the log."""

    part: Stretch

    def __post_init__(self) -> None:
        super().__init__(None)


@dataclass
class FilePartition(InputPartition):
    """One task over a file of another table, its path relative to the store."""

    file: str

    def __post_init__(self) -> None:
        super().__init__(None)


class RocketMQStoreDataSource(DataSource):
    """Reads store folders; the option `table` says what of them."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-store"

    def schema(self) -> str:
        columns = TABLES[store_options(self.options).table]
        return ", ".join(f"{name} {kind}" for name, kind in columns.items())

    def reader(self, schema: StructType) -> DataSourceReader:
        options = store_options(self.options)
        return StoreReader(options, check_schema(schema, TABLES[options.table], "rocketmq-store"))


class StoreReader(DataSourceReader):
    """A batch read of the files as they are when it is planned."""

    def __init__(self, options: StoreOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        options = self._options
        root = store_root(options.path)
        if options.table not in (MESSAGES, BAD_RANGES):
            return [FilePartition(file) for file in table_files(root, options)]
        parts = plan_stretches(root, options.split_size, options.begin_ms, options.end_ms)
        if options.table == MESSAGES and options.topics and options.prune_by_queues:
            parts = with_topics(root, parts, options.topics)
        return [LogPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        options = self._options
        if isinstance(partition, FilePartition):
            yield from read_table(store_root(options.path), partition.file, options, self._columns)
        elif isinstance(partition, LogPartition) and options.table == BAD_RANGES:
            yield from _bad_ranges(partition.part, self._columns)
        elif isinstance(partition, LogPartition):
            yield from read_stretch(partition.part, options, self._columns)


def read_stretch(part: Stretch, options: StoreOptions, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The messages of one task. Raises CorruptStore at the first bad range unless told to skip them."""
    schema = arrow_schema(columns, TABLES[MESSAGES])
    for step in scan(part, options.check_crc):
        if isinstance(step, BadRange):
            if not step.torn and not options.skip_corrupt:
                raise CorruptStore(
                    f"{step.path} holds {step.reason} at physical offset {step.physical_offset} ({step.size} bytes): "
                    'set corruptRecords to skip to read the rest, option("table", "bad_ranges") lists all such places'
                )
            continue
        for first in range(0, len(step.starts), ROWS_PER_BATCH):
            few = Found(step.data, step.base, step.starts[first : first + ROWS_PER_BATCH])
            batch = _rows(few, options, schema)
            if batch is not None:
                yield batch


def _rows(found: Found, options: StoreOptions, schema: pa.Schema) -> pa.RecordBatch | None:
    """Records as rows; None when none is wanted, found out before the costly columns are made."""
    records = RecordColumns(found.data, found.starts)
    wanted = np.ones(len(records), np.bool_)
    if options.begin_ms or options.end_ms:
        times = records.numbers("store_timestamp")
        wanted = times >= options.begin_ms
        if options.end_ms:
            wanted &= times < options.end_ms
    if options.topics and wanted.any():
        listed: Any = pc.is_in(records.topic, pa.array(options.topics, pa.string()))
        wanted &= listed.to_numpy(zero_copy_only=False)
    if not wanted.any():
        return None
    if not wanted.all():
        records = RecordColumns(found.data, found.starts[wanted])
    arrays = [_column(records, options.broker, name).cast(schema.field(name).type) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(records: RecordColumns, broker: str | None, name: str) -> Any:
    return kinds(records) if name == "kind" else column_of(records, broker, name)


def kinds(records: RecordColumns) -> Any:
    """What each record is to a consumer: half (prepared, undecided or not), delayed (waiting), else normal."""
    prepared = (records.numbers("sys_flag") & TRANSACTION_MASK) == TRANSACTION_PREPARED
    topic = records.topic
    half = _compute.or_(_compute.equal(topic, HALF_TOPIC), pa.array(prepared))
    delayed = _compute.is_in(topic, pa.array([SCHEDULE_TOPIC, WHEEL_TOPIC]))
    return _compute.if_else(half, "half", _compute.if_else(delayed, "delayed", "normal"))


def _bad_ranges(part: Stretch, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(columns, TABLES[BAD_RANGES])
    found = [asdict(step) for step in scan(part, check_crc=True) if isinstance(step, BadRange)]
    if found:
        arrays: list[Any] = [pa.array([bad[name] for bad in found], schema.field(name).type) for name in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
