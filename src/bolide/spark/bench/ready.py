"""`format("bolide-bench-ready")`: Arrow batches that are built before Spark requests them.

The rate at which Spark reads them is the limit of any Python source on this host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from bolide.spark.source.rows import ROWS_PER_BATCH
from bolide.spark.source.schema import COLUMNS, arrow_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FIVE: Final = ("topic", "queue_id", "queue_offset", "store_timestamp", "body")
"""The compared columns. `body` is the largest, with the requested size."""
FIVE_DDL: Final = ", ".join(f"{name} {COLUMNS[name]}" for name in FIVE)


class ReadySource(DataSource):
    """Source of ready batches. Options: `rows`, `body` (bytes), `partitions`."""

    @classmethod
    def name(cls) -> str:
        return "bolide-bench-ready"

    def schema(self) -> str:
        return FIVE_DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        return ReadyReader(self.options)


@dataclass
class _Rows(InputPartition):
    count: int

    def __post_init__(self) -> None:
        super().__init__(None)


class ReadyReader(DataSourceReader):
    """Yields the same batch repeatedly."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._rows = int(options["rows"])
        self._body = int(options["body"])
        self._partitions = int(options["partitions"])

    def partitions(self) -> list[InputPartition]:
        each = self._rows // self._partitions
        return [_Rows(each) for _ in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _Rows):
            return
        numbers = np.arange(ROWS_PER_BATCH, dtype=np.int64)
        values: dict[str, Any] = {
            "topic": pa.repeat("BenchSpark", ROWS_PER_BATCH),
            "queue_id": pa.array((numbers % 8).astype(np.int32)),
            "queue_offset": pa.array(numbers),
            "store_timestamp": pa.array(numbers),
            "body": pa.repeat(b"x" * self._body, ROWS_PER_BATCH),
        }
        schema = arrow_schema(FIVE)
        batch = pa.RecordBatch.from_arrays([values[name].cast(schema.field(name).type) for name in FIVE], schema=schema)
        left = partition.count
        while left > 0:
            yield batch if left >= ROWS_PER_BATCH else batch.slice(0, left)
            left -= ROWS_PER_BATCH
