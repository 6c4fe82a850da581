"""Decodes bodies to values for JSON, with a schema file or a registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from bolide.bodies.avro import AvroDecoder, parsed_avro
from bolide.bodies.parsed_schemas import ParsedSchemas
from bolide.bodies.protobuf import ProtobufDecoder, ProtobufTypes, plain_of, types_of
from bolide.bodies.registry import AVRO, JSON, PROTOBUF, FramedBody, RegisteredSchema, Registry, SchemaError, UnfitBody

Decode = Callable[[bytes], Any]
"""Decoder of a body. Raises `UnfitBody` if the body is invalid, and `RegistryError` if the registry fails."""
_Read = Callable[[FramedBody], Any]
AVRO_SUFFIX: Final = ".avsc"
PROTOBUF_SUFFIX: Final = ".desc"
MOST_SCHEMA: Final = 8 << 20
"""Maximum size of a schema file in bytes."""


def decoder_of_file(file: Path, message: str = "") -> Decode:
    """Return a decoder for an Avro schema (`.avsc`) or a Protobuf descriptor set (`.desc`).

    `message` is the full name of a Protobuf message. It may be "" if the descriptor set's last file has one message.
    Raises `SchemaError` if the file is invalid or unreadable.
    """
    try:
        if file.stat().st_size > MOST_SCHEMA:
            raise SchemaError(f"{file} is longer than {MOST_SCHEMA} bytes")
        data = file.read_bytes()
    except OSError as error:
        raise SchemaError(f"{file} cannot be read: {error.strerror}") from None
    try:
        if file.suffix == AVRO_SUFFIX:
            return AvroDecoder(parsed_avro(data.decode("utf-8"))).decode
        if file.suffix == PROTOBUF_SUFFIX:
            types = ProtobufTypes.of_set(data)
            return _protobuf(types, types.named(message))
    except (SchemaError, UnicodeDecodeError) as error:
        raise SchemaError(f"{file} cannot be used: {error}") from None
    raise SchemaError(f"{file} ends neither in {AVRO_SUFFIX} (Avro) nor in {PROTOBUF_SUFFIX} (Protobuf)")


class RegistryDecoder:
    """Decodes bodies of any format, each with the schema of its id."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._decoders = ParsedSchemas({AVRO: _of_avro, JSON: _of_json, PROTOBUF: _of_protobuf})

    def decode(self, body: bytes) -> Any:
        """Return the value of a body. Raises `UnfitBody` if it is invalid, `RegistryError` if the registry fails."""
        framed = self._registry.read(body)
        return self._decoders.of(framed.schema)(framed)


def as_text(value: Any, indent: int | None = None) -> str:
    """Return a decoded value as JSON: bytes in hexadecimal digits, times in ISO 8601, decimals in full.

    Half a surrogate pair, which JSON can represent and UTF-8 cannot, stays an escape. Raises `UnfitBody` if the value
    is nested too deeply.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, indent=indent, default=printable)
    except RecursionError:
        raise UnfitBody("it is nested too deeply to be shown") from None
    return text.encode("utf-8", "backslashreplace").decode()


def printable(value: Any) -> str:
    """Format a value that JSON cannot represent."""
    if isinstance(value, bytes):
        return value.hex(" ")
    if isinstance(value, (date, time)):
        return value.isoformat()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _of_avro(schema: RegisteredSchema) -> _Read:
    decode = AvroDecoder(parsed_avro(schema.text, schema.references)).decode
    return lambda framed: decode(framed.payload)


def _of_json(_: RegisteredSchema) -> _Read:
    return lambda framed: _json(framed.payload)


def _of_protobuf(schema: RegisteredSchema) -> _Read:
    types = types_of(schema)
    decoders: dict[tuple[int, ...], Decode] = {}

    def read(framed: FramedBody) -> Any:
        decode = decoders.get(framed.message)
        if decode is None:
            try:
                decode = decoders[framed.message] = _protobuf(types, types.at(framed.message))
            except SchemaError as error:
                raise UnfitBody(f"schema {schema.id} cannot be used: {error}") from None
        return decode(framed.payload)

    return read


def _protobuf(types: ProtobufTypes, descriptor: Any) -> Decode:
    decode, plain = ProtobufDecoder(types, descriptor).decode, plain_of(descriptor)
    return lambda body: plain(decode(body))


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise UnfitBody("it is not JSON") from None
