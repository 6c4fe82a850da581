"""`format("rocketmq")`: the data source that Spark loads. Checks options before the first request to a cluster.

Spark pickles these objects between its planner, source and worker processes, so they contain only options and built-in
types. Connections are opened where they are used. `pushFilters` is deliberately not overridden: PySpark 4.3 stores a
pushed filter in the shared relation and returns wrong rows to the next query on it. `reading` avoids that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from bolide.bodies.registry import JSON
from bolide.spark.body.body_format import JSON_ADVICE
from bolide.spark.errors import OptionError
from bolide.spark.failed_stream import stream_reader
from bolide.spark.older_stream import for_this_spark
from bolide.spark.source.bounds import batch_offsets
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.schema import COLUMNS, check_read_schema, ddl_of, kinds_of
from bolide.spark.source.source_options import SourceOptions, read_options
from bolide.spark.source.sql_table import is_table
from bolide.spark.source.stream import RocketMQStreamReader
from bolide.spark.source.tasks import plan, read_partition
from bolide.spark.spark_versions import DataSourceStreamArrowWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class RocketMQDataSource(DataSource):
    """Reads and writes topics of a RocketMQ cluster, Bolide's or Java's."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> str:
        if is_table(self.options, self.name()):
            return ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        return read_ddl(read_options(self.options, streaming=None))

    def reader(self, schema: StructType) -> DataSourceReader:
        return RocketMQReader(self._checked(schema, False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return stream_reader(lambda: self._stream_reader(schema))

    def _stream_reader(self, schema: StructType) -> DataSourceStreamReader:
        options = self._checked(schema, True)
        return for_this_spark(RocketMQStreamReader(options, schema), options.until_now)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from bolide.spark.sink.writer import batch_writer  # not in the planner of a read, which it would delay

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from bolide.spark.sink.writer import stream_writer  # as above

        return stream_writer(self.options, schema, overwrite)

    def _checked(self, schema: StructType, streaming: bool) -> SourceOptions:
        options = read_options(self.options, streaming)
        body = options.body
        check_read_schema(schema, {*options.extra_columns(), body.column}, bool(body.kind) and not body.column)
        if body.kind == JSON and not body.fields:
            from bolide.spark.body.json_types import check_json_columns  # only for such reads

            own = [field for field in schema if field.name not in (*COLUMNS, *options.extra_columns())]
            check_json_columns(own, JSON_ADVICE)
        if body.column in schema.names and schema[body.column].dataType.typeName() != "struct":
            raise OptionError(f"the column {body.column} holds the fields of the body: give it the type STRUCT<…>")
        if "columns" in self.options and tuple(schema.fieldNames()) != options.columns:
            raise OptionError("a schema and option columns contradict each other: give one of them")
        return options


def read_ddl(options: SourceOptions) -> str:
    """Return the schema of a read as SQL. Raises `OptionError` if only the user can specify it."""
    if options.body.kind and not options.body.fields:
        raise OptionError(f"option body.format {options.body.kind} needs option body.schema, or .schema(...)")
    return ddl_of(kinds_of(options.columns, options.extra_columns()))


class RocketMQReader(DataSourceReader):
    """A batch read. Its end is fixed when Spark plans it."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        cluster = Cluster(self._options)
        try:
            begin, end = batch_offsets(cluster, self._options)
            if self._options.filters.keys:
                from bolide.spark.source.key_lookup import tasks_by_keys  # as above

                found = tasks_by_keys(cluster, self._options, begin, end)
                if found is not None:
                    return found
            return plan(begin, end, cluster, self._options)
        finally:
            cluster.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._options, self._schema)
