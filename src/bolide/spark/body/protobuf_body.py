"""Protobuf bodies as columns. Bodies are decoded one by one; Protobuf's runtime does that in compiled code."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bolide.bodies.protobuf import ProtobufDecoder, plain_of
from bolide.bodies.registry import UnfitBody
from bolide.spark.body.body_arrays import arrays_of


class ProtobufBodies:
    """Decodes messages into these columns, which are fields of the message."""

    def __init__(self, decoder: ProtobufDecoder, descriptor: Any, fields: list[pa.Field[Any]]) -> None:
        self._decode = decoder.decode
        self._fields = fields
        self._plain = plain_of(descriptor)

    def decode(self, bodies: Any) -> tuple[list[Any], dict[int, str]]:
        """Return the columns of these bodies, and the reason for each bad row by index. Raises `RegistryError`."""
        bad: dict[int, str] = {}
        data: list[Any] = []
        for row, body in enumerate(bodies.to_pylist()):
            try:
                data.append(self._plain(self._decode(body)))
            except UnfitBody as error:
                bad[row] = str(error)
                data.append({})
        return arrays_of(data, self._fields, bad), bad
