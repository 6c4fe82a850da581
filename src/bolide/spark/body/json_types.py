"""Spark's types that fields of JSON bodies can have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from bolide.spark.body.sql_types import taken_apart
from bolide.spark.errors import OptionError

_SCALARS: Final = frozenset(
    "boolean byte tinyint short smallint int integer long bigint float real double string char character varchar"
    " decimal dec numeric date timestamp timestamp_ltz timestamp_ntz".split()
)


def check_json_fields(fields: Mapping[str, str], advice: str) -> None:
    """Raise `OptionError` with this advice if a field, by name with its type as SQL, cannot be read or written."""
    for name, kind in fields.items():
        word, parts = taken_apart(kind)
        if word in ("struct", "array"):
            inner = {name if word == "array" else f"{name}.{part}": one for part, one in parts.items()}
            check_json_fields(inner, advice)
        elif word not in _SCALARS:
            raise OptionError(f"the field {name} is {kind}, which is not supported for JSON: {advice}")


def check_json_columns(columns: Iterable[StructField], advice: str, prefix: str = "") -> None:
    """Like `check_json_fields`, for columns of a schema."""
    check_json_fields({prefix + column.name: _sql(column.dataType) for column in columns}, advice)


def _sql(kind: DataType) -> str:
    if isinstance(kind, ArrayType):
        return f"array<{_sql(kind.elementType)}>"
    if isinstance(kind, StructType):
        fields = (f"`{field.name.replace('`', '``')}`: {_sql(field.dataType)}" for field in kind)
        return f"struct<{', '.join(fields)}>"
    return kind.simpleString()
