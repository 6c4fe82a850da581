"""Differences between PySpark 4.0, 4.1, 4.2 and 4.3: names, base classes and Arrow schemas.

The rest of `bolide.spark` is written for the newest version. `older_stream` handles the calls of a stream.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamReader, DataSourceStreamWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

if TYPE_CHECKING or find_spec("pyspark.sql.streaming.datasource") is not None:  # 4.2 and newer
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:

    class SupportsTriggerAvailableNow:
        """Placeholder: older versions of Spark do not use it."""

    class ReadLimit:
        """A bound on the size of one batch."""

    @dataclass
    class ReadAllAvailable(ReadLimit):
        """No bound."""

    @dataclass
    class ReadMaxRows(ReadLimit):
        """A maximum number of rows."""

        max_rows: int

    @dataclass
    class ReadMinRows(ReadLimit):
        """A minimum number of rows."""

        min_rows: int

    @dataclass
    class ReadMaxBytes(ReadLimit):
        """A maximum number of bytes."""

        max_bytes: int


if TYPE_CHECKING or hasattr(datasource, "DataSourceStreamArrowWriter"):  # 4.1 and newer
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
        """A stream writer that receives Arrow batches, as 4.0 passes them to any Arrow writer."""


__all__ = [
    "PASSES_LIMITS",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "to_arrow_schema",
]

PASSES_LIMITS: Final = "limit" in inspect.signature(DataSourceStreamReader.latestOffset).parameters
"""Whether Spark passes start and limit of a stream's next batch and prepares for AvailableNow, as since 4.2."""


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects for a schema. Times are in UTC."""
    from pyspark.sql.pandas import types

    convert: Any = types.to_arrow_schema
    zone = {"timezone": "UTC"} if "timezone" in inspect.signature(convert).parameters else {}  # 4.0 and 4.1 use UTC
    made: pa.Schema = convert(schema, **zone)
    return made
