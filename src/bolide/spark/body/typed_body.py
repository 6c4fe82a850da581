"""Bodies as typed columns, and the handling of a body that does not fit its schema."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bolide.bodies.registry import AVRO, PROTOBUF
from bolide.bodies.registry_address import registry_at
from bolide.spark.body.body_format import CORRUPT_RECORD, BodyFormat
from bolide.spark.body.body_options import DROP, FAIL
from bolide.spark.errors import BadBody

Decoded = tuple[list[Any], Mapping[int, str]]
"""One Arrow array per field, null in bad rows, and the reason for each bad row by index."""
_compute: Any = pc  # its stubs do not know masks of numpy and null as a value


class Decoder(Protocol):
    """Decodes bodies into columns."""

    def decode(self, bodies: Any) -> Decoded:
        """Return the columns of these bodies, a binary array without nulls."""


class BodyReader:
    """Builds the columns of a read from its bodies, according to `body.onBadRecord`."""

    def __init__(self, decoder: Decoder, names: Sequence[str], on_bad_record: str, whole: Any = None) -> None:
        """If one struct column contains the decoder's columns, `whole` is its Arrow field."""
        self._decoder = decoder
        self._names: Final = [name for name in names if name != CORRUPT_RECORD]
        self._whole = whole
        self._shows_bad = CORRUPT_RECORD in names
        self._on_bad_record = on_bad_record

    def columns(self, bodies: Any, place: Callable[[int], str]) -> tuple[dict[str, Any], NDArray[np.bool_] | None]:
        """Return the columns by name, and a mask of the rows to keep, or None if no row is dropped. Columns omit
        dropped rows.

        `place` returns the location of the message of a row. Raises `BadBody` if bad records should fail the read.
        """
        arrays, bad = self._decoder.decode(bodies)
        if self._whole is not None:
            arrays = [_struct(arrays, self._whole.type, bad, len(bodies))]
        made = dict(zip(self._names, arrays, strict=True))
        if bad and self._on_bad_record == FAIL:
            row = min(bad)
            raise BadBody(
                f"the body of {place(row)} does not fit body.schema: {bad[row]}; set body.onBadRecord to drop or column"
            )
        good = np.ones(len(bodies), np.bool_)
        good[list(bad)] = False
        if bad and self._on_bad_record == DROP:
            kept = pa.array(good)
            return {name: array.filter(kept) for name, array in made.items()}, good
        if self._shows_bad:
            made[CORRUPT_RECORD] = _compute.if_else(pa.array(good), pa.scalar(None, pa.binary()), bodies)
        return made, None


def typed_columns(
    reader: BodyReader, bodies: Any, good: NDArray[np.bool_] | None, place: Callable[[int], str]
) -> tuple[dict[str, Any], NDArray[np.bool_] | None]:
    """Return the columns of bodies, and the rows to keep if some are dropped. `good` is false for rows without a body.

    A row without a body has null in every column and is never dropped. Raises `BadBody` if a body cannot be decoded and
    bad records should fail the read.
    """
    if good is None:
        return reader.columns(bodies, place)
    there = np.flatnonzero(good)
    made, kept = reader.columns(bodies.filter(pa.array(good)), lambda row: place(int(there[row])))
    keep = np.ones(len(good), np.bool_)
    if kept is not None:
        keep[there] = kept
    found = np.cumsum(good & keep) - 1
    take = pa.array(found[keep], mask=~good[keep])
    return {name: array.take(take) for name, array in made.items()}, None if kept is None else keep


def _struct(arrays: Sequence[Any], kind: Any, bad: Mapping[int, str], count: int) -> Any:
    """Return an array of structs, null in bad rows."""
    mask = np.zeros(count, np.bool_)
    mask[list(bad)] = True
    fields = [kind.field(number) for number in range(kind.num_fields)]
    return pa.StructArray.from_arrays(list(arrays), fields=fields, mask=pa.array(mask))


def body_reader(body: BodyFormat, schema: pa.Schema, names: Sequence[str]) -> BodyReader:
    """Return the reader of bodies of this format into the columns `names` of the schema. Raises `OptionError`."""
    fields: list[Any] = [schema.field(name) for name in names if name != CORRUPT_RECORD]
    whole: Any = None
    if body.column and fields:
        whole = fields[0]
        fields = [whole.type.field(number) for number in range(whole.type.num_fields)]
    return BodyReader(_decoder(body, fields), names, body.on_bad_record, whole)


def _decoder(body: BodyFormat, fields: list[Any]) -> Decoder:
    registry = None if body.registry is None else registry_at(body.registry)
    if body.kind == AVRO:
        from bolide.bodies.avro import AvroDecoder, parsed_avro
        from bolide.spark.body.avro_body import AvroBodies

        reader = parsed_avro(body.schema, body.references)
        writer = parsed_avro(body.writer_schema) if body.writer_schema else reader
        resolved = reader if registry is not None or body.writer_schema else None
        return AvroBodies(AvroDecoder(writer, resolved, registry), fields)
    if body.kind == PROTOBUF:
        from bolide.bodies.protobuf import ProtobufDecoder, ProtobufTypes
        from bolide.spark.body.protobuf_body import ProtobufBodies

        types = ProtobufTypes.of_set(base64.b64decode(body.schema))
        descriptor = types.named(body.message)
        return ProtobufBodies(ProtobufDecoder(types, descriptor, registry), descriptor, fields)
    from bolide.spark.body.json_body import JsonBodies

    return JsonBodies(fields, registry)
