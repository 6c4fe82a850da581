"""Avro bodies as columns: each body is one datum without a header, written with the schema of option `body.schema`.

Avro has no separators between fields, so bodies are decoded one by one; fastavro does that in compiled code.
"""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa

from bolide.spark.errors import OptionError


class AvroBodies:
    """Reads Avro data into these columns, which are fields of the schema's record."""

    def __init__(self, schema: str, fields: list[pa.Field[Any]]) -> None:
        self._schema = parsed_schema(schema)
        self._fields = fields

    def decode(self, bodies: Any) -> tuple[list[Any], dict[int, str]]:
        """The fields of these bodies, and why bad ones are bad."""
        from fastavro import schemaless_reader

        bad: dict[int, str] = {}
        data: list[Any] = []
        for row, body in enumerate(bodies.to_pylist()):
            stream = io.BytesIO(body)
            try:
                one: Any = schemaless_reader(stream, self._schema, None)
                if stream.tell() != len(body):
                    raise ValueError(f"{len(body) - stream.tell()} bytes are left after it")
            except Exception as error:  # any error of the decoder means that the body is bad
                bad[row] = f"{type(error).__name__}: {error}"
                one = {}
            data.append(one)
        return [self._array([one.get(field.name) for one in data], field.type) for field in self._fields], bad

    def _array(self, values: list[Any], kind: pa.DataType) -> Any:
        return pa.array([_plain(value) for value in values] if _needs_care(kind) else values, kind)


def parsed_schema(text: str) -> Any:
    """The schema in fastavro's form. Raises OptionError."""
    try:
        from fastavro import parse_schema
    except ImportError:
        raise OptionError('body.format avro needs fastavro on every machine: pip install "bolide[avro]"') from None
    try:
        return parse_schema(json.loads(text))
    except Exception as error:  # fastavro's errors have no common base class
        raise OptionError(f"body.schema of avro is refused: {type(error).__name__}: {error}") from None


def _needs_care(kind: pa.DataType) -> bool:
    types: Any = pa.types
    return bool(types.is_nested(kind) or types.is_string(kind))


def _plain(value: Any) -> Any:
    """Maps in Arrow's form, also nested ones; UUIDs as text."""
    if value is None or isinstance(value, (str, bytes, int, float)):
        return value
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return str(value) if type(value).__name__ == "UUID" else value
