"""Columns of a message as a row: the schema of `format("rocketmq")`, for Spark and for Arrow.

Besides the fixed columns there may be columns of user properties and of a typed body. Every column is nullable: Spark
does not check a null in a NOT NULL column in Python, and fails in the JVM instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from bolide.spark.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

COLUMNS: Final = {
    "topic": "string",
    "broker": "string",
    "queue_id": "int",
    "queue_offset": "bigint",
    "body": "binary",
    "tags": "string",
    "keys": "array<string>",
    "properties": "map<string,string>",
    "born_timestamp": "timestamp",
    "store_timestamp": "timestamp",
    "born_host": "string",
    "store_host": "string",
    "message_id": "string",
    "offset_message_id": "string",
    "flag": "int",
    "sys_flag": "int",
    "reconsume_times": "int",
    "transaction_state": "string",
}
"""The columns and Spark's names of their types, in order. Bodies are decompressed; timestamps have milliseconds."""

PROPERTY_PREFIX: Final = "property."
"""Prefix of columns with the value of a property, null if a message has no such property."""


def ddl_of(columns: Mapping[str, str]) -> str:
    """These columns and types as SQL writes a schema."""
    return ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in columns.items())


def kinds_of(columns: Iterable[str], body: Mapping[str, str]) -> dict[str, str]:
    """Columns of a read and their types; `body` are those of a typed body."""
    return {name: COLUMNS.get(name) or body.get(name, "string") for name in columns}


def check_read_schema(schema: StructType, body: Collection[str], typed: bool) -> None:
    """Refuse a schema that the live source cannot fill. Raises OptionError.

    `body` names the columns of a typed body; with `typed` a field with no other meaning is also one of them.
    """
    for field in schema:
        wanted = "string" if field.name.startswith(PROPERTY_PREFIX) else COLUMNS.get(field.name)
        if field.name in body or (typed and wanted is None):
            if not field.nullable:
                raise OptionError(f"the column {field.name} comes from the body, which may lack it: make it nullable")
            continue
        if wanted is None:
            raise OptionError(
                f"the rocketmq source has no column {field.name}; it has {', '.join(COLUMNS)}, {PROPERTY_PREFIX}NAME, "
                "and with option body.format the fields of the body"
            )
        given = field.dataType.simpleString()
        if given != wanted:
            raise OptionError(f"the column {field.name} of the rocketmq source is {wanted}, not {given}")


def check_schema(schema: StructType, columns: Mapping[str, str] = COLUMNS, source: str = "rocketmq") -> tuple[str, ...]:
    """The columns of a user's schema: some of the source's, with its types. Raises OptionError.

    A narrower schema is the only way to leave out columns of a Python source in Spark.
    """
    for field in schema:
        wanted = columns.get(field.name)
        if wanted is None:
            raise OptionError(f"the {source} source has no column {field.name}; it has {', '.join(columns)}")
        given = field.dataType.simpleString()
        if given != wanted:
            raise OptionError(f"the column {field.name} of the {source} source is {wanted}, not {given}")
    return tuple(schema.fieldNames())


def arrow_schema(columns: tuple[str, ...], kind_of: Mapping[str, str] = COLUMNS) -> pa.Schema:
    """The exact Arrow schema that Spark expects for these columns, by Spark's own rules.

    Types are built by hand: Spark's parser of DDL needs a JVM, which a worker does not have.
    """
    from pyspark.sql import types

    from bolide.spark.spark_versions import to_arrow_schema  # only where rows are made: it imports PySpark's sources

    kinds: dict[str, types.DataType] = {
        "string": types.StringType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "binary": types.BinaryType(),
        "boolean": types.BooleanType(),
        "timestamp": types.TimestampType(),
        "array<string>": types.ArrayType(types.StringType()),
        "map<string,string>": types.MapType(types.StringType(), types.StringType()),
    }
    fields = [types.StructField(name, kinds[kind_of[name]]) for name in columns]
    return to_arrow_schema(types.StructType(fields))
