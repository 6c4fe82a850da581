"""The options of typed bodies, such as `body.format` and `body.registry`.

`body_format` determines the columns that follow from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bolide.bodies.registry import AVRO, JSON, PROTOBUF
from bolide.spark.declared import option, options_in
from bolide.spark.option_values import as_it_is, one_of

FORMATS: Final = (JSON, AVRO, PROTOBUF)
FAIL: Final = "fail"
DROP: Final = "drop"
COLUMN: Final = "column"
COLUMNS: Final = "Columns"
_FILE: Final = (
    "for Protobuf: the file that `protoc --include_imports --descriptor_set_out` writes, and the full name of the "
    "message"
)
_REGISTRY: Final = "a schema registry, and the subject whose newest schema determines the columns"
_USER: Final = (
    "the user name and password for the registry, and a PEM file with the trusted authorities for an `https` registry"
)


def _stripped(name: str, text: str) -> str:
    return text.strip()


def _word(*words: str) -> Callable[[str, str], str]:
    """Return a reader of options that are one of these words, in any case."""
    read = one_of(*words)
    return lambda name, text: read(name, text.strip().lower())


@dataclass(frozen=True, kw_only=True)
class BodyOptions:
    """The values of the options, or None if an option is not given."""

    format: str = option(
        COLUMNS,
        "`json`, `avro` or `protobuf`: fields of the body become columns ([Typed bodies](#typed-bodies))",
        _word(*FORMATS),
        shown="",
        name="body.format",
    )
    schema: str | None = option(
        COLUMNS,
        "for JSON `id BIGINT, place STRUCT<city: STRING>` or a JSON Schema (or name the columns in `.schema(...)`); "
        "for Avro a record's schema as JSON",
        _stripped,
        shown="",
        name="body.schema",
    )
    writer_schema: str | None = option(
        COLUMNS,
        "the Avro schema with which bodies were written, if it is not `body.schema`",
        _stripped,
        shown="",
        name="body.writerSchema",
    )
    descriptor: str | None = option(COLUMNS, _FILE, _stripped, shown="", name="body.descriptor")
    message: str | None = option(COLUMNS, _FILE, _stripped, shown="", name="body.message")
    registry: str | None = option(COLUMNS, _REGISTRY, _stripped, shown="", name="body.registry")
    subject: str | None = option(COLUMNS, _REGISTRY, _stripped, shown="", name="body.subject")
    registry_user: str | None = option(COLUMNS, _USER, as_it_is, shown="", name="body.registryUser")
    registry_password: str | None = option(
        COLUMNS, _USER, as_it_is, shown="", name="body.registryPassword", hidden=True
    )
    registry_cert_path: str | None = option(COLUMNS, _USER, as_it_is, shown="", name="body.registryCertPath")
    column: str | None = option(
        COLUMNS,
        "the name of a struct column for all fields, which may then have names such as `topic` or `tags`",
        _stripped,
        shown="",
        name="body.column",
    )
    on_bad_record: str = option(
        COLUMNS,
        "`fail` (default; the error contains the message's position), `drop`, or `column`: fields are null and "
        "`_corrupt_record` contains the body",
        _word(FAIL, DROP, COLUMN),
        absent=FAIL,
        shown="",
        name="body.onBadRecord",
    )


BODY_OPTIONS: Final = options_in(BodyOptions)
