"""Spark's types for the properties of a JSON Schema, as stored in schema registries (drafts 4 to 2020-12).

Uses only names and types of properties: bodies are not validated against patterns, ranges or required properties.
"""

from __future__ import annotations

import json
from typing import Any, Final

from bolide.spark.errors import OptionError

_SCALARS: Final = {"string": "string", "integer": "bigint", "number": "double", "boolean": "boolean"}
_FORMATS: Final = {"date-time": "timestamp", "date": "date"}
_MOST_DEPTH: Final = 32


def json_schema_fields(text: str) -> dict[str, str]:
    """Return names and types of the properties of an object. Raises `OptionError`."""
    try:
        schema: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"body.schema of json starts with {{ but is not a JSON Schema: {error}") from None
    try:
        fields = _properties(_resolved(schema, schema, "the schema", 0), schema, 0)
    except (AttributeError, TypeError) as error:
        raise OptionError(f"body.schema of json is not a JSON Schema: {error}") from None
    if not fields:
        raise OptionError("body.schema of json must be an object with properties: these become columns")
    return fields


def json_schema_required(text: str) -> tuple[str, ...]:
    """Return the properties that an object must have. `json_schema_fields` must accept the schema."""
    schema: Any = json.loads(text)
    schema = _resolved(schema, schema, "the schema", 0)
    found = schema.get("required")
    properties = schema["properties"]
    return tuple(name for name in found if name in properties) if isinstance(found, list) else ()


def _properties(schema: Any, root: Any, depth: int) -> dict[str, str]:
    found = schema.get("properties")
    if not isinstance(found, dict):
        return {}
    return {name: _kind(inner, root, name, depth + 1) for name, inner in found.items()}


def _kind(schema: Any, root: Any, where: str, depth: int) -> str:
    """Return Spark's type for a value. Raises `OptionError`."""
    schema = _resolved(schema, root, where, depth)
    for word in ("oneOf", "anyOf"):  # how generators write that a value may be null
        if word in schema:
            others = [one for one in schema[word] if one != {"type": "null"}]
            if len(others) != 1:
                raise OptionError(f"body.schema of json: {where} has several types, which is not a column; use one")
            return _kind(others[0], root, where, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else None)
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        kind = others[0] if len(others) == 1 else others
    if kind == "string" and schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    if isinstance(kind, str) and kind in _SCALARS:
        return _SCALARS[kind]
    if kind is None and isinstance(schema.get("enum"), list) and all(isinstance(one, str) for one in schema["enum"]):
        return "string"
    if kind == "array" and isinstance(schema.get("items"), dict):
        return f"array<{_kind(schema['items'], root, where, depth + 1)}>"
    if kind == "object":
        fields = _properties(schema, root, depth)
        if fields:
            return f"struct<{', '.join(f'`{name}`: {inner}' for name, inner in fields.items())}>"
    raise OptionError(
        f"body.schema of json: {where} has no type that is a column; give body.schema as SQL, e.g. id BIGINT,"
        " name STRING"
    )


def _resolved(schema: Any, root: Any, where: str, depth: int) -> Any:
    """Return the schema, or the schema in the same document that it refers to. Raises `OptionError`."""
    while isinstance(schema, dict) and "$ref" in schema:
        depth += 1
        target = schema["$ref"]
        if depth > _MOST_DEPTH or not isinstance(target, str) or not target.startswith("#"):
            break
        schema = root
        for part in target[1:].split("/")[1:]:
            schema = schema.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(schema, dict) else None
    if depth > _MOST_DEPTH:
        raise OptionError(f"body.schema of json: {where} contains itself, and Spark has no type for that")
    if not isinstance(schema, dict) or "$ref" in schema:
        raise OptionError(f"body.schema of json: {where} refers to a schema that is not in this document")
    return schema
