"""Spark's types for the fields of an Avro record."""

from __future__ import annotations

import json
from typing import Any, Final

from bolide.spark.body.sql_types import MAX_DIGITS
from bolide.spark.errors import OptionError

_PRIMITIVES: Final = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
}
_LOGICAL: Final = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
    "uuid": "string",
}


def avro_fields(text: str, references: tuple[tuple[str, str], ...] = ()) -> dict[str, str]:
    """Return names and types of a record's fields. `references` are schemas that it refers to. Raises `OptionError` if
    a schema is invalid or a type is not supported."""
    types = _AvroTypes()
    for _, inner in references:
        types.add(_json(inner))
    schema = _json(text)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise OptionError("body.schema of avro must be a record: its fields become columns")
    return types.fields(schema, "")


def avro_required(text: str) -> tuple[str, ...]:
    """Return the fields of a record, as `avro_fields` accepts it, that have no default and cannot be null."""
    fields = _json(text)["fields"]
    return tuple(field["name"] for field in fields if "default" not in field and not _nullable(field["type"]))


def _nullable(kind: Any) -> bool:
    return kind == "null" or (isinstance(kind, list) and "null" in kind)


class _AvroTypes:
    """Converts Avro's types to Spark's, and stores named types by their full names."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[Any, str]] = {}

    def add(self, schema: Any) -> None:
        """Store the named types of a schema that other schemas refer to."""
        if isinstance(schema, dict) and schema.get("type") in ("record", "enum", "fixed"):
            self.kind(schema, str(schema.get("name")), "")

    def fields(self, schema: Any, space: str, depth: int = 0) -> dict[str, str]:
        """Return names and types of a record's fields. `space` is its enclosing namespace."""
        space = self._name(schema, space)
        found = schema.get("fields")
        if not isinstance(found, list) or not all(isinstance(f, dict) and "name" in f and "type" in f for f in found):
            raise OptionError("body.schema of avro: a record needs a list fields, each with name and type")
        return {field["name"]: self.kind(field["type"], field["name"], space, depth) for field in found}

    def kind(self, schema: Any, where: str, space: str, depth: int = 0) -> str:
        """Return Spark's type of a value, like Spark's Avro reader. Raises `OptionError` if there is none."""
        if depth > 32:
            raise OptionError(f"body.schema of avro: {where} contains itself, and Spark has no type for that")
        if isinstance(schema, list):
            others = [one for one in schema if one != "null"]
            if len(others) == 1:
                return self.kind(others[0], where, space, depth + 1)
            raise OptionError(
                f"body.schema of avro: {where} is a union of several types, which is not a column; use one"
            )
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return _PRIMITIVES[schema]
            known = self._named.get(_full(schema, space)) or self._named.get(schema)
            if known is None:
                raise OptionError(f"body.schema of avro: the type {schema} of {where} is not known")
            return self.kind(known[0], where, known[1], depth + 1)
        if not isinstance(schema, dict) or "type" not in schema:
            raise OptionError(f"body.schema of avro: {schema!r} of {where} is not a type")
        return self._whole(schema, where, space, depth)

    def _whole(self, schema: dict[str, Any], where: str, space: str, depth: int) -> str:
        """Return the type of a schema that is a JSON object. Raises `OptionError`."""
        kind = schema["type"]
        if kind == "fixed":
            self._name(schema, space)
        if schema.get("logicalType") in _LOGICAL:
            return _LOGICAL[schema["logicalType"]]
        if schema.get("logicalType") == "decimal":
            precision, scale = schema.get("precision"), schema.get("scale", 0)
            if not _is_decimal(precision, scale):
                raise OptionError(
                    f"body.schema of avro: {where} is a decimal with precision {precision} and scale {scale}: Spark"
                    f" takes precisions from 1 to {MAX_DIGITS}, and scales up to the precision"
                )
            return f"decimal({precision},{scale})"
        if kind == "record":
            fields = self.fields(schema, space, depth + 1)
            return f"struct<{', '.join(f'`{name}`: {inner}' for name, inner in fields.items())}>"
        if kind == "array":
            return f"array<{self.kind(schema['items'], where, space, depth + 1)}>"
        if kind == "map":
            return f"map<string, {self.kind(schema['values'], where, space, depth + 1)}>"
        if kind in ("enum", "fixed"):
            self._name(schema, space)
            return "string" if kind == "enum" else "binary"
        return self.kind(kind, where, space, depth + 1)

    def _name(self, schema: dict[str, Any], space: str) -> str:
        """Store a named type, and return its namespace, which applies to the types within it."""
        full = _full(str(schema.get("name", "")), str(schema.get("namespace") or space))
        self._named[full] = (schema, space)
        return full.rpartition(".")[0]


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"body.schema of avro is not JSON: {error}") from None


def _is_decimal(precision: object, scale: object) -> bool:
    """Return whether Spark supports decimals of this precision and scale."""
    if type(precision) is not int or type(scale) is not int:
        return False
    return 0 < precision <= MAX_DIGITS and 0 <= scale <= precision
