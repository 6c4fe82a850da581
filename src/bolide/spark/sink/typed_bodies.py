"""Options and checks of a write that encodes a struct column as the bodies of its messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from bolide.bodies.registry import JSON, SchemaError
from bolide.spark.body.body_format import BodyFormat, read_body_format
from bolide.spark.body.body_options import BODY_OPTIONS
from bolide.spark.declared import Option
from bolide.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

BODY: Final = "body"
_OF_READS: Final = ("body.writerSchema", "body.onBadRecord")
_OWN: Final = {"body.column": "the struct column to encode, if it is not `body`"}
_HEADING: Final = "Typed bodies"
WRITTEN: Final[tuple[Option, ...]] = tuple(
    replace(one, heading=_HEADING, text=_OWN.get(one.name, "as for [reading](spark-source.md#columns)"))
    for one in BODY_OPTIONS
    if one.name not in _OF_READS
)
"""The options of bodies that a write has."""


def written_body(given: Mapping[str, str]) -> BodyFormat:
    """Parse the options of bodies, whose names are in lower case. Raises `OptionError` if they are invalid.

    With `body.subject` it fetches the newest schema from the registry.
    """
    body = read_body_format({one.name.lower(): given[one.name.lower()] for one in WRITTEN if one.name.lower() in given})
    if body.registry is not None and body.registered is None:
        raise OptionError(
            "option body.registry of a write needs option body.subject: each body starts with the id of the subject's "
            "newest schema"
        )
    return body


def column_of(body: BodyFormat) -> str:
    """Return the name of the column with the bodies."""
    return body.column or BODY


def check_struct(schema: StructType, body: BodyFormat) -> None:
    """Raise `OptionError` if the column of the bodies is not a struct that fits their schema, or if their registry
    cannot write."""
    from pyspark.sql.types import StructType

    from bolide.spark.body.body_fit import check_fields
    from bolide.spark.body.body_writer import body_writer

    name = column_of(body)
    kind = schema[name].dataType
    if not isinstance(kind, StructType):
        raise OptionError(
            f"the column {name} of the rocketmq sink must be a struct with option body.format, not"
            f" {kind.simpleString()}: leave body.format out to send bytes"
        )
    if body.fields:
        check_fields(kind, dict(body.fields), name, body.required)
    if body.kind == JSON:
        from bolide.spark.body.json_types import check_json_columns

        check_json_columns(kind, f"cast it, or write to_json({name}) AS body without body.format", f"{name}.")
    try:
        body_writer(body)
    except SchemaError as error:
        raise OptionError(f"the schema of option body.format {body.kind} cannot be used: {error}") from None
