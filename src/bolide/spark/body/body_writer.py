"""Encodes a struct column as bodies: JSON, Avro or Protobuf, alone or behind a registry's schema id.

Bodies are encoded one by one, because no library encodes columns. fastavro and Protobuf's runtime do it in compiled
code.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from bolide.bodies.decoding import as_text
from bolide.bodies.registry import AVRO, PROTOBUF, FramedBody, UnfitBody, WritableRegistry
from bolide.bodies.registry_address import registry_at
from bolide.spark.body.body_format import BodyFormat
from bolide.spark.errors import OptionError

_Convert = Callable[[Any], Any]
_NOT_UTF8 = "it contains text that is not valid UTF-8"


@dataclass(frozen=True, slots=True)
class UnfitRow:
    """A row whose body cannot be encoded."""

    reason: str
    shown: bytes | None
    """Its fields as JSON, or None if they cannot be shown."""


class BodyWriter:
    """Encodes the bodies of a task."""

    def __init__(
        self, encode: Callable[[Mapping[str, Any]], bytes], frame: Callable[[bytes], bytes] | None = None
    ) -> None:
        self._encode = encode
        self._frame = frame

    def bodies(self, structs: pa.StructArray) -> tuple[Any, dict[int, UnfitRow]]:
        """Return a binary array with the bodies, and the rows that do not fit by index. A row that is null or does not
        fit has no body. Times with a zone must be in UTC (`in_utc`), because Python does not know every zone of Spark.
        """
        found: list[bytes | None] = []
        unfit: dict[int, UnfitRow] = {}
        for row, values in enumerate(_rows(structs)):
            body = None
            if isinstance(values, str):
                unfit[row] = UnfitRow(values, None)
            elif values is not None:
                try:
                    body = self._encode(values)
                    body = body if self._frame is None else self._frame(body)
                except UnfitBody as error:
                    unfit[row] = UnfitRow(f"its body cannot be encoded: {error}", _shown(values))
            found.append(body)
        return pa.array(found, pa.binary()), unfit


def body_writer(body: BodyFormat) -> BodyWriter:
    """Return the writer of bodies of this format. Raises `OptionError` if its registry cannot write."""
    message: tuple[int, ...] = (0,)
    if body.kind == AVRO:
        from bolide.bodies.avro import AvroEncoder, parsed_avro

        encode = AvroEncoder(parsed_avro(body.schema, body.references)).encode
    elif body.kind == PROTOBUF:
        from bolide.bodies.protobuf import ProtobufTypes
        from bolide.bodies.protobuf_writing import ProtobufEncoder

        types = ProtobufTypes.of_set(base64.b64decode(body.schema))
        descriptor = types.named(body.message)
        encode = ProtobufEncoder(types, descriptor).encode
        message = types.position_of(descriptor) if body.registered else message
    else:
        from bolide.bodies.json_text import JsonEncoder

        encode = JsonEncoder(body.required).encode
    if body.registry is None or body.registered is None:
        return BodyWriter(encode)
    registry = registry_at(body.registry)
    if not isinstance(registry, WritableRegistry):
        raise OptionError(
            f"option body.registry: {body.registry.shown} cannot be written for, because it has no method frame"
        )
    written, frame = body.registered, registry.frame
    return BodyWriter(encode, lambda payload: frame(FramedBody(written, payload, message)))


def _rows(structs: pa.StructArray) -> list[dict[str, Any] | str | None]:
    """Return the fields of each row: a dictionary, None, or the reason why it has no values in Python."""
    convert = _converter(structs.type) or _same
    values: Any = structs  # its stub lacks the method
    try:
        return [convert(value) for value in values.to_pylist()]
    except (ValueError, OverflowError):  # in at least one row
        return [_row(value, convert) for value in structs]


def _row(value: Any, convert: _Convert) -> dict[str, Any] | str | None:
    try:
        found: dict[str, Any] | None = convert(value.as_py())
    except UnicodeDecodeError:
        return _NOT_UTF8
    except (ValueError, OverflowError) as error:
        return f"it has a time that is beyond the years 1 to 9999 ({error})"
    return found


def _converter(kind: Any) -> _Convert | None:
    """Return the function that makes dictionaries of the maps in a value, or None if its type has no maps."""
    types: Any = pa.types
    if types.is_map(kind):
        key, item = _converter(kind.key_type) or _same, _converter(kind.item_type) or _same
        return partial(_map, key=key, item=item)
    if types.is_list(kind):
        inner = _converter(kind.value_type)
        return None if inner is None else partial(_list, inner=inner)
    if types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        found = {field.name: made for field in fields if (made := _converter(field.type)) is not None}
        return partial(_struct, inner=found) if found else None
    return None


def _same(value: Any) -> Any:
    return value


def _map(value: Sequence[tuple[Any, Any]] | None, key: _Convert, item: _Convert) -> dict[Any, Any] | None:
    return None if value is None else {key(name): item(inner) for name, inner in value}


def _list(value: list[Any] | None, inner: _Convert) -> list[Any] | None:
    return None if value is None else [inner(one) for one in value]


def _struct(value: dict[str, Any] | None, inner: Mapping[str, _Convert]) -> dict[str, Any] | None:
    if value is not None:
        for name, convert in inner.items():
            value[name] = convert(value[name])
    return value


def _shown(values: dict[str, Any]) -> bytes | None:
    try:
        return as_text(values).encode()
    except (UnfitBody, TypeError, ValueError):
        return None
