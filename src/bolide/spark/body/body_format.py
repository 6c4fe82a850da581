"""The format of typed bodies according to the options, and the columns that follow from it.

Only names and types are determined here; `typed_body` reads the bodies, and `body_writer` writes them.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from bolide.bodies.registry import (
    AVRO,
    JSON,
    PROTOBUF,
    RegisteredSchema,
    RegistryAddress,
    RegistryError,
    SchemaError,
)
from bolide.bodies.registry_address import registry_at
from bolide.spark.body.body_options import BODY_OPTIONS, COLUMN, FAIL, FORMATS, BodyOptions
from bolide.spark.body.sql_types import ddl_fields
from bolide.spark.declared import read_fields
from bolide.spark.errors import OptionError
from bolide.spark.option_values import either

CORRUPT_RECORD: Final = "_corrupt_record"
"""Column with the whole body of a bad record, for `body.onBadRecord` column. Null for good records."""
JSON_ADVICE: Final = "leave it out, or read body as text and use from_json"
"""What to do about a field whose type JSON bodies cannot have."""
_MOST_DESCRIPTOR: Final = 8 << 20
"""Maximum size of a descriptor set in bytes."""


@dataclass(frozen=True)
class BodyFormat:
    """The format of bodies, and the columns into which a read decodes them."""

    kind: str = ""
    """json, avro or protobuf, or "" if bodies stay bytes."""
    fields: tuple[tuple[str, str], ...] = ()
    """Names and Spark's types, as DDL, of the fields in a body."""
    schema: str = ""
    """Avro: the reader's schema as JSON. Protobuf: a serialized descriptor set, as base64."""
    references: tuple[tuple[str, str], ...] = ()
    """Avro: name and JSON of the schemas that `schema` refers to."""
    writer_schema: str = ""
    """Avro schema of the writer of all bodies, or "" if it is `schema`."""
    message: str = ""
    """Protobuf: the full name of the message."""
    registry: RegistryAddress | None = None
    """Registry of the schema ids at the start of bodies."""
    registered: RegisteredSchema | None = None
    """The newest schema of the subject, or None without `body.subject`."""
    required: tuple[str, ...] = ()
    """Fields that every body has, according to the schema."""
    column: str = ""
    """Name of the struct column for all fields. If it is empty, each field is a column."""
    on_bad_record: str = FAIL

    def columns(self) -> dict[str, str]:
        """Return the columns of a typed body, including the column of bad records if there is one."""
        found = dict(self.fields)
        if self.column and found:
            inner = (f"`{name.replace('`', '``')}`: {kind}" for name, kind in found.items())
            found = {self.column: f"struct<{', '.join(inner)}>"}
        if self.kind and self.on_bad_record == COLUMN:
            found[CORRUPT_RECORD] = "binary"
        return found


def read_body_format(given: Mapping[str, str], taken: Collection[str] = ()) -> BodyFormat:
    """Parse the body options. A field cannot have one of the names `taken`. Raises `OptionError`.

    With `body.subject` it fetches the newest schema from the registry.
    """
    if "body.format" not in given:
        for one in BODY_OPTIONS:
            if one.name.lower() in given:
                raise OptionError(f"option {one.name} needs option body.format: set it to {either(FORMATS)}")
        return BodyFormat()
    options = read_fields(BodyOptions, given)
    kind, column = options.format, options.column or ""
    _check_options(options, given)
    body = BodyFormat(kind, registry=_registry(options), column=column, on_bad_record=options.on_bad_record)
    try:
        body = _READERS[kind](body, options)
    except SchemaError as error:
        raise OptionError(f"the schema of option body.format {kind} cannot be used: {error}") from None
    except RegistryError as error:
        raise OptionError(f"option body.registry: {error}") from None
    for name in (column,) if column else dict(body.fields):
        if name in taken:
            raise OptionError(
                f"option body.column names {name}, which is a column of the source: choose another name"
                if column
                else f"body.schema has a field {name}, which is a column of the source: name a struct for all fields in"
                " option body.column, remove the field, or read body as bytes"
            )
    return body


_OF_KIND: Final = {
    "body.writerSchema": (AVRO,),
    "body.schema": (JSON, AVRO),
    "body.descriptor": (PROTOBUF,),
    "body.message": (PROTOBUF,),
}
"""Options that only some formats have, with these formats."""


def _check_options(options: BodyOptions, given: Collection[str]) -> None:
    """Raise `OptionError` for an option that this format does not have, or that contradicts another option."""
    for name, kinds in _OF_KIND.items():
        if name.lower() in given and options.format not in kinds:
            raise OptionError(f"option {name} is for body.format {either(kinds)}, not {options.format}: leave it out")
    for name in ("body.registryUser", "body.registryPassword", "body.registryCertPath", "body.subject"):
        if name.lower() in given and options.registry is None:
            raise OptionError(f"option {name} needs option body.registry: the registry's address")
    if (options.registry_user is None) != (options.registry_password is None):
        raise OptionError("options body.registryUser and body.registryPassword go together: set both or neither")
    for name in ("body.schema", "body.descriptor"):
        if name.lower() in given and options.subject is not None:
            raise OptionError(f"options {name} and body.subject contradict each other: give one of them")
    if options.writer_schema is not None and options.registry is not None:
        raise OptionError("with option body.registry each body names its schema: leave body.writerSchema out")


def _registry(options: BodyOptions) -> RegistryAddress | None:
    if options.registry is None:
        return None
    return RegistryAddress(
        options.registry,
        options.registry_user or "",
        options.registry_password or "",
        options.registry_cert_path or "",
    )


def _latest(body: BodyFormat, options: BodyOptions) -> RegisteredSchema | None:
    """Return the newest schema of the subject, or None without a subject. Raises `OptionError` and `RegistryError`."""
    subject = options.subject
    if not subject or body.registry is None:
        return None
    found = registry_at(body.registry).latest(subject)
    if found.kind != body.kind:
        raise OptionError(f"the subject {subject} is {found.kind}: set option body.format to that, not to {body.kind}")
    return found


def _json(body: BodyFormat, options: BodyOptions) -> BodyFormat:
    from bolide.spark.body.json_schema_types import json_schema_fields, json_schema_required
    from bolide.spark.body.json_types import check_json_fields

    found = _latest(body, options)
    text = (options.schema or "") if found is None else found.text
    if not text:
        return body  # the schema that the user passes to Spark names the columns
    if not text.startswith("{"):
        given = ddl_fields(text)
        check_json_fields(given, JSON_ADVICE)
        return replace(body, fields=tuple(given.items()))
    fields = json_schema_fields(text)
    return replace(body, fields=tuple(fields.items()), required=json_schema_required(text), registered=found)


def _avro(body: BodyFormat, options: BodyOptions) -> BodyFormat:
    from bolide.bodies.avro import parsed_avro
    from bolide.spark.body.avro_types import avro_fields, avro_required

    found = _latest(body, options)
    text = (options.schema or "") if found is None else found.text
    references = () if found is None else found.references
    if not text:
        wanted = "body.subject, or " if body.registry else ""
        raise OptionError(f"option body.format avro needs option {wanted}body.schema: the Avro schema as JSON")
    try:
        fields = avro_fields(text, references)
    except (AttributeError, KeyError, TypeError) as error:
        parsed_avro(text, references)  # its error contains more details
        raise SchemaError(f"it is not an Avro schema: {type(error).__name__}: {error}") from None
    writer = options.writer_schema or ""
    for schema in (text, writer) if writer else (text,):
        parsed_avro(schema, references)
    body = replace(body, fields=tuple(fields.items()), schema=text, references=references, writer_schema=writer)
    return replace(body, required=avro_required(text), registered=found)


def _protobuf(body: BodyFormat, options: BodyOptions) -> BodyFormat:
    from bolide.bodies.protobuf import ProtobufTypes, descriptor_set
    from bolide.spark.body.protobuf_types import protobuf_fields

    found = _latest(body, options)
    if found is not None:
        data = descriptor_set(found)
    elif options.descriptor is not None:
        data = _file_of(options.descriptor)
    else:
        wanted = "body.subject, or " if body.registry else ""
        raise OptionError(
            f"option body.format protobuf needs option {wanted}body.descriptor: the file that protoc --include_imports"
            " --descriptor_set_out writes"
        )
    descriptor: Any = ProtobufTypes.of_set(data).named(options.message or "")
    fields = protobuf_fields(descriptor)
    text = base64.b64encode(data).decode()
    body = replace(body, fields=tuple(fields.items()), schema=text, message=descriptor.full_name)
    return replace(body, registered=found)


def _file_of(name: str) -> bytes:
    try:
        path = Path(name)
        if path.stat().st_size > _MOST_DESCRIPTOR:
            raise OptionError(f"option body.descriptor: {name} is longer than {_MOST_DESCRIPTOR} bytes")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise OptionError(f"option body.descriptor: {name} cannot be read on the driver: {error}") from None


_READERS: Final = {JSON: _json, AVRO: _avro, PROTOBUF: _protobuf}
