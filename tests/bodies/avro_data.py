"""Two versions of an Avro schema, and data of them."""

from __future__ import annotations

import io
from typing import Any

from fastavro import parse_schema, schemaless_writer

OLD: dict[str, Any] = {"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "int"}]}
NEW: dict[str, Any] = {
    "type": "record",
    "name": "shop.Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": "none"}],
}


def datum(schema: dict[str, Any], values: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    schemaless_writer(stream, parse_schema(schema), values)
    return stream.getvalue()
