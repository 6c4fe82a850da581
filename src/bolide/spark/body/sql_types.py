"""Schemas of bodies in SQL: `id BIGINT, place STRUCT<city: STRING>`."""

from __future__ import annotations

import re
from typing import Final

from bolide.spark.errors import OptionError

_FIELD: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+))\s*:?\s+(\S.*?)\s*", re.DOTALL)
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
"""Types that contain types, with the number of the latter."""
MAX_DIGITS: Final = 38
"""Maximum precision of Spark's decimals."""


def ddl_fields(text: str) -> dict[str, str]:
    """Return names and types of a schema such as `id BIGINT, place STRUCT<city: STRING>`. Raises `OptionError`.

    Only Spark's JVM can parse types, but its error names neither the option nor the type. So types that it would reject
    are rejected here, and the others are passed on unchanged.
    """
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


def taken_apart(kind: str) -> tuple[str, dict[str, str]]:
    """Return the keyword of a type that `ddl_fields` accepts, in lower case, and names and types of its parts.

    A scalar has no parts. An array has the part `element`, a map `key` and `value`, and a struct its fields.
    """
    matched = _TYPE.fullmatch(kind.strip())
    if matched is None:
        raise OptionError(f"{kind} is not a type")
    word, inner = matched[1].lower(), matched[2]
    if inner is None:
        return word, {}
    parts = [part.strip() for part in _parts(inner)] if inner.strip() else []
    if word in _NESTED:
        return word, dict(zip(("element",) if word == "array" else ("key", "value"), parts, strict=True))
    fields = filter(None, map(_FIELD.fullmatch, parts))
    return word, {(field[1] or field[2]).replace("``", "`"): field[3] for field in fields}


def _is_type(text: str) -> bool:
    """Return whether Spark has the type `text`, which a comment may follow."""
    matched = _TYPE.fullmatch(text.strip())
    if matched is None:
        return False
    word, inner, rest = matched[1].lower(), matched[2], matched[3]
    if word in _SCALARS:
        behind = _BEHIND_SCALAR.fullmatch(rest)
        if behind is None or inner is not None:
            return False
        digits = int(behind[1] or 1)
        return word not in _DECIMALS or 0 < digits <= MAX_DIGITS
    if inner is None:
        return False
    parts = _parts(inner) if inner.strip() else []
    if word == "struct":
        return all((field := _FIELD.fullmatch(part)) is not None and _is_type(field[3]) for part in parts)
    return len(parts) == _NESTED.get(word) and all(map(_is_type, parts))


def _parts(text: str) -> list[str]:
    """Split a text at commas outside brackets and quotes."""
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
