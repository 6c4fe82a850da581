"""Avro bodies as columns.

Avro has no separators between fields, so bodies are decoded one by one; fastavro does that in compiled code.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bolide.bodies.avro import AvroDecoder
from bolide.bodies.registry import UnfitBody


class AvroBodies:
    """Reads Avro data into these columns, which are fields of the schema's record."""

    def __init__(self, decoder: AvroDecoder, fields: list[pa.Field[Any]]) -> None:
        self._decode = decoder.decode
        self._fields = fields

    def decode(self, bodies: Any) -> tuple[list[Any], dict[int, str]]:
        """The fields of these bodies, and why bad ones are bad. Raises RegistryError."""
        bad: dict[int, str] = {}
        data: list[Any] = []
        for row, body in enumerate(bodies.to_pylist()):
            try:
                data.append(self._decode(body))
            except UnfitBody as error:
                bad[row] = str(error)
                data.append({})
        return [self._array([one.get(field.name) for one in data], field.type) for field in self._fields], bad

    def _array(self, values: list[Any], kind: pa.DataType) -> Any:
        return pa.array([_plain(value) for value in values] if _needs_care(kind) else values, kind)


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
