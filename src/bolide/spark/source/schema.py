"""Columns of a message as a row: the schema of `format("rocketmq")`, for Spark and for Arrow.

A read may add columns of user properties and of a typed body to the fixed columns. Every column is nullable, because
Spark does not check nulls of a NOT NULL column in Python, and fails in the JVM instead.
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
    """Return columns and types as an SQL schema."""
    return ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in columns.items())


def kinds_of(columns: Iterable[str], body: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of a read with their types. `body` contains the columns of a typed body."""
    return {name: COLUMNS.get(name) or body.get(name, "string") for name in columns}


def check_read_schema(schema: StructType, body: Collection[str], typed: bool) -> None:
    """Raise `OptionError` if the live source cannot provide a schema.

    `body` contains the columns of a typed body. With `typed`, unknown fields are also columns of the body.
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
    """Return the columns of a user's schema. Raises `OptionError` if the source lacks one or its type differs.

    A narrower schema is the only way in Spark to omit columns of a Python source.
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
    """Return the exact Arrow schema that Spark expects for these columns.

    Builds the types without Spark's DDL parser, which needs a JVM that workers do not have.
    """
    from pyspark.sql import types

    from bolide.spark.spark_versions import to_arrow_schema  # import it only here: it imports PySpark's sources

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
