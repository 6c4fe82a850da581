"""Avro bodies as columns.

Avro has no separators between fields, so bodies are decoded one by one; fastavro does that in compiled code.
"""

from __future__ import annotations

from datetime import time
from typing import Any

import pyarrow as pa

from bolide.bodies.avro import AvroDecoder
from bolide.bodies.registry import UnfitBody
from bolide.spark.body.body_arrays import arrays_of


class AvroBodies:
    """Decodes Avro bodies into these columns, which are fields of the schema's record."""

    def __init__(self, decoder: AvroDecoder, fields: list[pa.Field[Any]]) -> None:
        self._decode = decoder.decode
        self._fields = fields

    def decode(self, bodies: Any) -> tuple[list[Any], dict[int, str]]:
        """Return the columns of these bodies, and the reason for each bad row by index. Raises `RegistryError`."""
        bad: dict[int, str] = {}
        data: list[Any] = []
        for row, body in enumerate(bodies.to_pylist()):
            try:
                data.append(self._decode(body))
            except UnfitBody as error:
                bad[row] = str(error)
                data.append({})
        return arrays_of(data, self._fields, bad, _array), bad


def _array(values: list[Any], kind: pa.DataType) -> Any:
    if isinstance(next((value for value in values if value is not None), None), time):  # Spark reads it as a number
        unit = 1 if pa.types.is_int64(kind) else 1000
        values = [None if value is None else _microseconds(value) // unit for value in values]
    return pa.array([_plain(value) for value in values] if _needs_care(kind) else values, kind)


def _microseconds(value: time) -> int:
    """Return the time since midnight in µs."""
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _needs_care(kind: pa.DataType) -> bool:
    types: Any = pa.types
    return bool(types.is_nested(kind) or types.is_string(kind))


def _plain(value: Any) -> Any:
    """Return a value with UUIDs as text, also inside maps and lists."""
    if value is None or isinstance(value, (str, bytes, int, float)):
        return value
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return str(value) if type(value).__name__ == "UUID" else value
