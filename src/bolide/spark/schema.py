"""Columns of a message as a row: the schema of `format("rocketmq")`, for Spark and for Arrow.

Every column is nullable: Spark does not check a null in a NOT NULL column in Python and fails in the JVM instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from bolide.spark.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

COLUMNS: Final = (
    "topic STRING, broker STRING, queue_id INT, queue_offset BIGINT, body BINARY, tags STRING, keys ARRAY<STRING>, "
    "properties MAP<STRING, STRING>, born_timestamp TIMESTAMP, store_timestamp TIMESTAMP, born_host STRING, "
    "store_host STRING, message_id STRING, offset_message_id STRING, flag INT, sys_flag INT, reconsume_times INT"
)
"""Spark's DDL of the source, in order. Bodies are inflated; timestamps have milliseconds."""

WRITE_COLUMNS: Final = (
    "topic",
    "body",
    "tags",
    "keys",
    "properties",
    "delay_level",
    "sharding_key",
    "queue_id",
    "flag",
)
"""Columns the sink understands; only `body` must be there, and `topic` unless the option is set."""


def check_schema(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema given by the user: some of ours, with our types. Raises OptionError.

    A narrower schema is the only way in which Spark lets a Python source leave columns out.
    """
    from pyspark.sql.types import StructType as Struct

    ours = {field.name: field.dataType for field in cast(Struct, Struct.fromDDL(COLUMNS))}
    for field in schema:
        if field.name not in ours:
            raise OptionError(f"the rocketmq source has no column {field.name}; it has {', '.join(ours)}")
        if field.dataType.simpleString() != ours[field.name].simpleString():
            wanted, given = ours[field.name].simpleString(), field.dataType.simpleString()
            raise OptionError(f"the column {field.name} of the rocketmq source is {wanted}, not {given}")
    return tuple(schema.fieldNames())


def arrow_schema(columns: tuple[str, ...]) -> pa.Schema:
    """The Arrow schema Spark expects for these columns, to the letter."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType as Struct

    whole = cast(Struct, Struct.fromDDL(COLUMNS))
    return to_arrow_schema(Struct([whole[name] for name in columns]), timezone="UTC")
