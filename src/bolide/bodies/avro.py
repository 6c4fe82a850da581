"""Avro bodies: a datum without a header, or after the schema id of a registry.

fastavro decodes a body in compiled code that cannot be interrupted. So recursive schemas are rejected, because a body
could nest without limit. Arrays of items that may have no bytes are also rejected, because a short body could contain
any number of such items. Decimals are decoded here, because fastavro takes minutes for a decimal of a megabyte, and
rounds decimals with more digits than their schema allows.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any, Final
from uuid import UUID

from bolide.bodies.parsed_schemas import ParsedSchemas
from bolide.bodies.registry import AVRO, Registry, SchemaError, UnfitBody

MOST_DIGITS: Final = 1000
"""Maximum number of digits of a decimal."""
_CONTAINERS: Final = {"array": "items", "map": "values"}
_DECIMAL: Final = "bolide-decimal"
"""The logical type that decimals have in a parsed schema."""
_UUID: Final = "bolide-uuid"
"""The logical type that UUIDs have in a parsed schema."""
_EXACT: Final = Context(prec=MOST_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)


def parsed_avro(text: str, references: tuple[tuple[str, str], ...] = ()) -> Any:
    """Parse a schema for fastavro. `references` are the names and texts of the schemas that it refers to. Raises
    `SchemaError` if a schema is invalid, or if bodies could exhaust a reader."""
    try:
        from fastavro import parse_schema
        from fastavro.read import LOGICAL_READERS
        from fastavro.write import LOGICAL_WRITERS
    except ImportError:
        raise SchemaError("Avro needs fastavro on every machine: pip install fastavro") from None
    LOGICAL_READERS.update({f"{kind}-{_DECIMAL}": _decimal for kind in ("bytes", "fixed")})
    LOGICAL_WRITERS.update({f"{kind}-{_DECIMAL}": LOGICAL_WRITERS[f"{kind}-decimal"] for kind in ("bytes", "fixed")})
    LOGICAL_READERS.update({f"string-{_UUID}": _uuid, f"fixed-{_UUID}": _uuid_of_bytes})
    LOGICAL_WRITERS.update({f"string-{_UUID}": _uuid_text, f"fixed-{_UUID}": _uuid_bytes})
    named: dict[str, Any] = {}
    try:
        for _, inner in references:
            parse_schema(json.loads(inner), named_schemas=named)
        schema = parse_schema(json.loads(text), named_schemas=named)
    except Exception as error:  # fastavro's errors have no common base class
        raise SchemaError(f"it is not an Avro schema: {type(error).__name__}: {error}") from None
    try:
        _check(schema, {}, (), named)
    except RecursionError:
        raise SchemaError("it is nested too deeply") from None
    return schema


class AvroDecoder:
    """Decodes the bodies of a read. Data is resolved to the schema `reader`, or keeps the writer's schema if `reader`
    is None."""

    def __init__(self, writer: Any, reader: Any = None, registry: Registry | None = None) -> None:
        """Uses the schema `writer` for all bodies or, with a registry, the schema id of each body instead."""
        self._writer = writer
        self._reader = reader
        self._registry = registry
        self._schemas = ParsedSchemas({AVRO: lambda schema: parsed_avro(schema.text, schema.references)})

    def decode(self, body: bytes) -> Any:
        """Return the datum of a body. Raises `UnfitBody` if the body is invalid, and `RegistryError` if the registry
        cannot return its schema."""
        from fastavro import schemaless_reader

        writer = self._writer
        if self._registry is not None:
            written = self._registry.read(body)
            writer, body = self._schemas.of(written.schema), written.payload
        stream = io.BytesIO(body)
        try:
            datum: Any = schemaless_reader(stream, writer, self._reader)
        except Exception as error:  # any error of the decoder means that the body is invalid
            raise UnfitBody(f"it does not match its schema ({type(error).__name__}: {error})") from None
        if stream.tell() != len(body):
            raise UnfitBody(f"{len(body) - stream.tell()} bytes are left after its datum")
        return datum


class AvroEncoder:
    """Encodes data of one record type."""

    def __init__(self, schema: Any) -> None:
        """Takes a schema from `parsed_avro`."""
        from fastavro import schemaless_writer

        self._schema = schema
        self._write = schemaless_writer

    def encode(self, values: Mapping[str, Any]) -> bytes:
        """Return a datum without a header. A missing field gets its default. Raises `UnfitBody` if a value does not fit
        the schema."""
        stream = io.BytesIO()
        try:
            self._write(stream, self._schema, values)
        except Exception as error:  # fastavro's errors have no common base class
            raise UnfitBody(f"the schema does not accept it ({type(error).__name__}: {error})") from None
        return stream.getvalue()


def _check(schema: Any, known: dict[str, bool], above: tuple[str, ...], named: dict[str, Any]) -> bool:
    """Return whether a datum may have no bytes. Raises `SchemaError` if a body with this schema could exhaust its
    reader."""
    if isinstance(schema, list):
        for one in schema:
            _check(one, known, above, named)
        return False  # a union starts with the number of its branch
    if isinstance(schema, str):
        if schema in above:
            raise SchemaError(f"{schema} contains itself, so a body could nest without end")
        if schema not in known and schema in named:
            return _check(named[schema], known, above, named)
        return known.get(schema, schema == "null")
    kind = schema["type"]
    if schema.get("logicalType") == "decimal":
        _bound(schema)
    elif schema.get("logicalType") == "uuid":
        schema["logicalType"] = _UUID
    if kind in ("record", "error"):
        name = schema["name"]
        fields = [_check(field["type"], known, (*above, name), named) for field in schema["fields"]]
        known[name] = all(fields)
        return known[name]
    if kind in _CONTAINERS:
        empty = _check(schema[_CONTAINERS[kind]], known, above, named)
        if empty and kind == "array":
            raise SchemaError("it has an array of items of no bytes, so a body could hold any number of them")
        return False
    if kind in ("fixed", "enum"):
        known[schema["name"]] = kind == "fixed" and schema["size"] == 0
        return known[schema["name"]]
    return _check(kind, known, above, named)


def _bound(schema: Any) -> None:
    """Let `_decimal` read this type. Without a precision, the type stays bytes (Avro's specification, "Decimal")."""
    digits = schema.get("precision")
    if type(digits) is not int or digits < 1:
        del schema["logicalType"]
    elif digits > MOST_DIGITS:
        raise SchemaError(f"it has a decimal of {digits} digits, {MOST_DIGITS} at most are supported")
    else:
        schema["logicalType"] = _DECIMAL


def _decimal(data: bytes, schema: Any, _: Any = None) -> Decimal:
    number = int.from_bytes(data, "big", signed=True)
    if abs(number) >= 10 ** schema["precision"]:
        raise ValueError(f"a decimal has more than {schema['precision']} digits")
    return Decimal(number).scaleb(-schema.get("scale", 0), _EXACT)


def _uuid(text: str, _: Any = None, __: Any = None) -> UUID:
    return UUID(text)


def _uuid_text(value: Any, _: Any) -> str:
    return str(UUID(str(value)))  # rejects invalid UUIDs, because fastavro writes any text


def _uuid_of_bytes(data: bytes, _: Any = None, __: Any = None) -> UUID:
    return UUID(bytes=data)


def _uuid_bytes(value: Any, _: Any) -> bytes:
    return UUID(str(value)).bytes
