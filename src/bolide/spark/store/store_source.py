"""`format("rocketmq-store")`: a store folder of Bolide or of RocketMQ as rows, without a broker.

Only the CommitLog is trusted. Queue files, if present, show which parts of it can be skipped. A task reads a stretch of
a file. Tasks can find record boundaries (`log_scan`), so several tasks can read a file of 1 GiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from bolide.spark.errors import OptionError
from bolide.spark.failed_stream import stream_reader
from bolide.spark.older_stream import for_this_spark
from bolide.spark.source.schema import check_schema
from bolide.spark.source.sql_table import is_table
from bolide.spark.store.store_options import StoreReadOptions, columns_of, store_options
from bolide.spark.store.store_plan import STRETCH, plan_stretches, store_root, tasks_of, with_topics
from bolide.spark.store.store_schema import BAD_RANGES, MESSAGES, STRETCHES, TABLES
from bolide.spark.store.store_stream import LogPartition, StoreStreamReader, read_parts
from bolide.spark.store.store_tables import read_table, table_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass
class FilePartition(InputPartition):
    """A task that reads a file of a table other than the log. Its path is relative to the store."""

    file: str

    def __post_init__(self) -> None:
        super().__init__(None)


class RocketMQStoreDataSource(DataSource):
    """Reads the table of a store folder that the option `table` selects."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-store"

    def schema(self) -> str:
        columns = TABLES[MESSAGES] if is_table(self.options, self.name()) else columns_of(store_options(self.options))
        return ", ".join(f"{name} {kind}" for name, kind in columns.items())

    def reader(self, schema: StructType) -> DataSourceReader:
        options = store_options(self.options, streaming=False)
        return StoreReader(options, check_schema(schema, columns_of(options), "rocketmq-store"))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return stream_reader(lambda: self._stream_reader(schema))

    def _stream_reader(self, schema: StructType) -> DataSourceStreamReader:
        options = store_options(self.options, streaming=True)
        if options.table not in (MESSAGES, STRETCHES):
            raise OptionError(f"table {options.table} cannot be streamed: use spark.read, or leave option table out")
        columns = check_schema(schema, columns_of(options), "rocketmq-store")
        return for_this_spark(StoreStreamReader(options, columns), options.until_now)


class StoreReader(DataSourceReader):
    """A batch read of the files that exist when Spark plans it."""

    def __init__(self, options: StoreReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        options = self._options
        root = store_root(options.path)
        if options.table not in (MESSAGES, BAD_RANGES, STRETCHES):
            return [FilePartition(file) for file in table_files(root, options)]
        parts = plan_stretches(root, options.split_size or STRETCH, options.begin_ms, options.end_ms)
        if options.table == MESSAGES and options.topics and options.prune_by_queues:
            parts = with_topics(root, parts, options.topics)
        if options.table == STRETCHES:
            return [LogPartition(tuple(parts))]
        return [LogPartition(group) for group in tasks_of(parts, options.split_size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        options = self._options
        if isinstance(partition, FilePartition):
            yield from read_table(store_root(options.path), partition.file, options, self._columns)
        elif isinstance(partition, LogPartition):
            yield from read_parts(partition, options, self._columns)
