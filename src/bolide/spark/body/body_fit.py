"""Compares a struct column of a write with the schema of its bodies, before a row is read."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from bolide.spark.body.sql_types import taken_apart
from bolide.spark.errors import OptionError

_SAME: Final = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
    "char": "string",
    "character": "string",
    "varchar": "string",
}
"""Synonyms of types."""
_WIDER: Final = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))
"""Types in ascending order: each type contains the values of the types before it."""
_DECIMAL: Final = re.compile(r"\w+\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\).*", re.DOTALL)


def check_fields(given: StructType, fields: Mapping[str, str], where: str, required: Collection[str] = ()) -> None:
    """Raise `OptionError` unless each column of `given` is one of the fields with a type that contains its values.

    `fields` are names and types as SQL, `where` is the name of the column. Fields not `required` may be missing.
    """
    for field in given:
        wanted = fields.get(field.name)
        if wanted is None:
            raise OptionError(
                f"the column {where} has a field {field.name}, which the schema of its bodies lacks: leave it out; the"
                f" schema has {', '.join(fields)}"
            )
        _check(field.dataType, wanted, f"{where}.{field.name}")
    for name in required:
        if name not in given.names:
            raise OptionError(f"the column {where} lacks the field {name}, which the schema of its bodies requires")


def _check(given: DataType, wanted: str, where: str) -> None:
    word, parts = taken_apart(wanted)
    if word == "struct" and isinstance(given, StructType):
        check_fields(given, parts, where)
    elif word == "array" and isinstance(given, ArrayType):
        _check(given.elementType, parts["element"], f"{where}.element")
    elif word == "map" and isinstance(given, MapType):
        _check(given.keyType, parts["key"], f"{where}.key")
        _check(given.valueType, parts["value"], f"{where}.value")
    elif not _contains(wanted, given.simpleString()):
        raise OptionError(
            f"the column {where} is {given.simpleString()}, and the schema of its bodies has {wanted}: cast it"
        )


def _contains(wanted: str, given: str) -> bool:
    """Return whether a scalar type contains all values of another."""
    outer, inner = _word(wanted), _word(given)
    if outer == inner == "decimal":
        (most, scale), (digits, decimals) = _digits(wanted), _digits(given)
        return decimals <= scale and digits - decimals <= most - scale
    return outer == inner or any(
        outer in row and inner in row and row.index(inner) <= row.index(outer) for row in _WIDER
    )


def _word(kind: str) -> str:
    word, _ = taken_apart(kind)
    return _SAME.get(word, word)


def _digits(kind: str) -> tuple[int, int]:
    """Return precision and scale of a decimal; Spark's default is 10 and 0."""
    matched = _DECIMAL.fullmatch(kind.strip())
    return (10, 0) if matched is None else (int(matched[1]), int(matched[2] or 0))
