"""Options of typed bodies: `body.format`, `body.schema`, `body.onBadRecord`, and the columns that follow from them.

Only names and types are determined here; `json_body` and `avro_body` read the bodies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bolide.spark.errors import OptionError

FORMATS: Final = ("json", "avro")
FAIL: Final = "fail"
DROP: Final = "drop"
COLUMN: Final = "column"
CORRUPT_RECORD: Final = "_corrupt_record"
"""With `body.onBadRecord` column: the whole body of a bad record; null for good ones."""

_FIELD: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+))\s*:?\s+(\S.*?)\s*", re.DOTALL)
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
_TYPE: Final = re.compile(r"([a-z]\w*)\s*(?:<(.*)>)?(.*)", re.DOTALL | re.IGNORECASE)
_SCALARS: Final = frozenset(
    "boolean byte tinyint short smallint int integer long bigint float real double string char character varchar binary"
    " decimal dec numeric date time timestamp timestamp_ltz timestamp_ntz interval void variant geometry"
    " geography".split()
)
_DECIMALS: Final = ("decimal", "dec", "numeric")
_BEHIND_SCALAR: Final = re.compile(
    r"\s*(?:\(\s*(\d+)\s*(?:,\s*\d+\s*)?\))?\s*"
    r"(?:(?:collate|comment|default|year|month|day|hour|minute|second|with|without)\b.*)?",
    re.DOTALL | re.IGNORECASE,
)
_NESTED: Final = {"array": 1, "map": 2}
"""Types of types, with the number of these."""
_MAX_DIGITS: Final = 38
"""Precision of Spark's longest decimal."""


@dataclass(frozen=True)
class BodyFormat:
    """How bodies become columns; `kind` is json, avro, or empty if the body stays bytes."""

    kind: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    """Names and Spark's types, as DDL, of the columns in a body."""
    schema: str = ""
    """The Avro schema with which bodies were written, as JSON."""
    on_bad_record: str = FAIL

    def columns(self) -> dict[str, str]:
        """The columns of a typed body, with that of bad records if there is one."""
        found = dict(self.fields)
        if self.kind and self.on_bad_record == COLUMN:
            found[CORRUPT_RECORD] = "binary"
        return found


def read_body_format(given: Mapping[str, str], taken: Collection[str]) -> BodyFormat:
    """The body options; `taken` are column names that a body's field cannot have. Raises OptionError."""
    kind = given.get("body.format", "").strip().lower()
    if not kind:
        for name in ("body.schema", "body.onBadRecord"):
            if name.lower() in given:
                raise OptionError(f"option {name} needs option body.format: set it to {' or '.join(FORMATS)}")
        return BodyFormat()
    if kind not in FORMATS:
        raise OptionError(f"option body.format must be {' or '.join(FORMATS)}, not {kind!r}")
    on_bad = given.get("body.onbadrecord", FAIL).strip().lower()
    if on_bad not in (FAIL, DROP, COLUMN):
        raise OptionError(f"option body.onBadRecord must be {FAIL}, {DROP} or {COLUMN}, not {on_bad!r}")
    text = given.get("body.schema", "").strip()
    if not text:
        if kind == "avro":
            raise OptionError("option body.format avro needs option body.schema: the Avro schema as JSON")
        return BodyFormat(kind, on_bad_record=on_bad)  # a schema given to Spark names the columns then
    fields = _avro_fields(text) if kind == "avro" else ddl_fields(text)
    for name in fields:
        if name in taken or name == CORRUPT_RECORD:
            raise OptionError(
                f"body.schema has a field {name}, which is a column of the source: leave it out, or read body as bytes"
            )
    return BodyFormat(kind, tuple(fields.items()), text if kind == "avro" else "", on_bad)


def ddl_fields(text: str) -> dict[str, str]:
    """Names and types of a schema such as `id BIGINT, place STRUCT<city: STRING>`. Raises OptionError.

    Only Spark's JVM can parse types, but its error names neither the option nor the type. So types that it would reject
    are rejected here, and the others are passed on unchanged.
    """
    if text.startswith("{"):
        raise OptionError("body.schema of json is written as in SQL, for example: id BIGINT, name STRING")
    fields: dict[str, str] = {}
    for part in _parts(text):
        matched = _FIELD.fullmatch(part)
        if matched is None:
            raise OptionError(f"body.schema: {part.strip()!r} is not a column; write, e.g., id BIGINT, name STRING")
        name = (matched[1] or matched[2]).replace("``", "`")
        kind = matched[3]
        if re.search(r"\bnot\s+null\b", kind, re.IGNORECASE):
            raise OptionError(f"body.schema: {name} cannot be NOT NULL, since a body may lack it; leave NOT NULL out")
        if name in fields:
            raise OptionError(f"body.schema names {name} twice; keep one")
        if not _is_type(kind):
            raise OptionError(
                f"body.schema: {name} has the type {kind}, which is not one of Spark's; write, e.g., BIGINT, STRING,"
                " ARRAY<INT> or STRUCT<city: STRING>"
            )
        fields[name] = kind
    return fields


def _is_type(text: str) -> bool:
    """Whether Spark knows the type `text`, which a comment may follow."""
    matched = _TYPE.fullmatch(text.strip())
    if matched is None:
        return False
    word, inner, rest = matched[1].lower(), matched[2], matched[3]
    if word in _SCALARS:
        behind = _BEHIND_SCALAR.fullmatch(rest)
        if behind is None or inner is not None:
            return False
        digits = int(behind[1] or 1)
        return word not in _DECIMALS or 0 < digits <= _MAX_DIGITS
    if inner is None:
        return False
    parts = _parts(inner) if inner.strip() else []
    if word == "struct":
        return all((field := _FIELD.fullmatch(part)) is not None and _is_type(field[3]) for part in parts)
    return len(parts) == _NESTED.get(word) and all(map(_is_type, parts))


def _parts(text: str) -> list[str]:
    """The text split at commas outside brackets and quotes."""
    parts: list[str] = []
    depth = begin = 0
    quote = ""
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "`'\"":
            quote = letter
        elif letter in "<(":
            depth += 1
        elif letter in ">)":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[begin:at])
            begin = at + 1
    return [*parts, text[begin:]]


def _is_decimal(precision: object, scale: object) -> bool:
    """Whether Spark has decimals of this precision and scale."""
    if type(precision) is not int or type(scale) is not int:
        return False
    return 0 < precision <= _MAX_DIGITS and 0 <= scale <= precision


def _avro_fields(text: str) -> dict[str, str]:
    try:
        schema: Any = json.loads(text)
    except ValueError as error:
        raise OptionError(f"body.schema of avro is not JSON: {error}") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise OptionError("body.schema of avro must be a record: its fields become columns")
    names: dict[str, Any] = {}
    return {field["name"]: _avro_type(field["type"], field["name"], names) for field in _named(schema, names)}


def _named(schema: Any, names: dict[str, Any]) -> list[Any]:
    if "name" in schema:
        names[schema["name"]] = schema
    fields = schema.get("fields")
    if not isinstance(fields, list) or not all(isinstance(f, dict) and "name" in f and "type" in f for f in fields):
        raise OptionError("body.schema of avro: a record needs a list fields, each with name and type")
    return fields


def _avro_type(schema: Any, where: str, names: dict[str, Any], depth: int = 0) -> str:
    """Spark's type of a value; the reverse of what Spark's own Avro reader maps. Raises OptionError."""
    if depth > 32:
        raise OptionError(f"body.schema of avro: {where} contains itself, and Spark has no type for that")
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) == 1:
            return _avro_type(others[0], where, names, depth + 1)
        raise OptionError(f"body.schema of avro: {where} is a union of several types, which is not a column; use one")
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return _PRIMITIVES[schema]
        known = names.get(schema)
        if known is None:
            raise OptionError(f"body.schema of avro: the type {schema} of {where} is not known")
        return _avro_type(known, where, names, depth + 1)
    if not isinstance(schema, dict) or "type" not in schema:
        raise OptionError(f"body.schema of avro: {schema!r} of {where} is not a type")
    kind = schema["type"]
    if schema.get("logicalType") in _LOGICAL:
        return _LOGICAL[schema["logicalType"]]
    if schema.get("logicalType") == "decimal":
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if not _is_decimal(precision, scale):
            raise OptionError(
                f"body.schema of avro: {where} is a decimal with precision {precision} and scale {scale}: Spark takes"
                f" precisions from 1 to {_MAX_DIGITS}, and scales up to the precision"
            )
        return f"decimal({precision},{scale})"
    if kind == "record":
        inner = (f"`{f['name']}`: {_avro_type(f['type'], f['name'], names, depth + 1)}" for f in _named(schema, names))
        return f"struct<{', '.join(inner)}>"
    if kind == "array":
        return f"array<{_avro_type(schema['items'], where, names, depth + 1)}>"
    if kind == "map":
        return f"map<string, {_avro_type(schema['values'], where, names, depth + 1)}>"
    if kind in ("enum", "fixed"):
        names[schema["name"]] = schema
        return "string" if kind == "enum" else "binary"
    return _avro_type(kind, where, names, depth + 1)
