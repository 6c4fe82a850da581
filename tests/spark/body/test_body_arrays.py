"""A value that its column cannot hold makes its body a bad one, and leaves the others."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from bolide.bodies.avro import AvroDecoder, parsed_avro
from bolide.spark.body.avro_body import AvroBodies
from bolide.spark.body.body_arrays import arrays_of


def test_a_value_that_does_not_fit_its_column() -> None:
    bad: dict[int, str] = {}
    data = [{"a": 1, "b": "x"}, {"a": 1 << 40, "b": "y"}, {"a": 3, "b": b"\xff"}, {"a": 4}]
    fields: list[Any] = [pa.field("a", pa.int32()), pa.field("b", pa.string())]
    arrays = [array.to_pylist() for array in arrays_of(data, fields, bad)]
    assert arrays == [[1, None, None, 4], ["x", None, None, None]]
    assert [bad[row].partition(" (")[0] for row in (1, 2)] == [
        "its field a does not fit the column",
        "its field b does not fit the column",
    ]
    assert len(bad) == 2


@pytest.mark.parametrize(
    ("kind", "unit", "column", "body"),
    [("int", "time-millis", pa.int32(), b"\x8a\x08"), ("long", "time-micros", pa.int64(), b"\x8a\x08")],
)
def test_times_of_day_are_numbers_as_in_sparks_own_reader(kind: str, unit: str, column: Any, body: bytes) -> None:
    fields = [{"name": "at", "type": {"type": kind, "logicalType": unit}}]
    schema = parsed_avro(json.dumps({"type": "record", "name": "T", "fields": fields}))
    (found,), bad = AvroBodies(AvroDecoder(schema), [pa.field("at", column)]).decode(pa.array([body]))
    assert (found.to_pylist(), bad) == ([517], {})
