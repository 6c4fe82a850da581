"""Bodies as columns: what parses comes out as it went in, and a bad body harms no row but its own."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, LongType, MapType, StringType, StructField, StructType

from bolide.bodies.avro import AvroDecoder, parsed_avro
from bolide.spark.body.avro_body import AvroBodies
from bolide.spark.body.body_format import CORRUPT_RECORD, BodyFormat
from bolide.spark.body.json_body import JsonBodies
from bolide.spark.body.typed_body import BodyReader
from bolide.spark.data_source import RocketMQDataSource
from bolide.spark.errors import BadBody, OptionError

FIELDS = [
    pa.field("id", pa.int64()),
    pa.field("name", pa.string()),
    pa.field("rate", pa.float64()),
    pa.field("seen", pa.bool_()),
    pa.field("at", pa.timestamp("us", "UTC")),
    pa.field("day", pa.date32()),
    pa.field("parts", pa.list_(pa.field("element", pa.int32()))),
    pa.field("place", pa.struct([pa.field("city", pa.string())])),
]
JSON = JsonBodies(FIELDS)
WHOLE = (
    b'{"id": 1, "name": "one", "rate": 0.5, "seen": true, "at": "2026-03-01T12:00:00.5Z", "day": "2026-03-01",'
    b' "parts": [1, 2], "place": {"city": "Cairo", "more": 1}, "unknown": {"x": []}}'
)


def decoded(*bodies: bytes) -> tuple[dict[str, list[Any]], dict[int, str]]:
    arrays, bad = JSON.decode(pa.array(bodies, pa.binary()))
    return {field.name: array.to_pylist() for field, array in zip(FIELDS, arrays, strict=True)}, bad


def test_every_type_of_a_json_body() -> None:
    found, bad = decoded(WHOLE, b"{}", b' \n{ "id" : 2 ,\n "name": null}', b'{"name": "\\u00e9\\n"}')
    assert bad == {}
    assert found["id"] == [1, None, 2, None]
    assert found["name"] == ["one", None, None, "é\n"]
    assert found["rate"][0] == 0.5
    assert found["seen"][0] is True
    assert found["at"][0].isoformat() == "2026-03-01T12:00:00.500000+00:00"
    assert found["day"][0].isoformat() == "2026-03-01"
    assert found["parts"][0] == [1, 2]
    assert found["place"][0] == {"city": "Cairo"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'{"id": 1',
        b'{"id": "x"}',
        b'{"id": 1}{"id": 2}',
        b"{}\n{}",
        b'{"id": 1},',
        b"\xff",
        b'{"id"',
    ],
    ids=repr,
)
def test_a_bad_body_is_its_rows_alone(body: bytes) -> None:
    found, bad = decoded(b'{"id": 1}', body, b'{"id": 3}', b"1}", b'{"id": 5}')
    assert sorted(bad) == [1, 3]
    assert found["id"] == [1, None, 3, None, 5]


bodies_or_rubbish = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(lambda number: json.dumps({"id": number}).encode()),
    st.binary(max_size=12),
    st.sampled_from([b'{"id":', b"1}", b"{}", b'{"id": 1}\n{"id": 2}', b'{"name": "', b'"}', b'{"bolide:row": 3}']),
)


@given(st.lists(bodies_or_rubbish, max_size=12))
@settings(max_examples=60)
def test_rows_never_shift(bodies: list[bytes]) -> None:
    found, bad = decoded(*bodies)
    for row, body in enumerate(bodies):
        try:
            plain = json.loads(body)
        except ValueError:
            plain = None
        if isinstance(plain, dict) and set(plain) <= {"id"}:
            assert row not in bad
            assert found["id"][row] == plain.get("id")
        elif not isinstance(plain, dict):
            assert row in bad
            assert found["id"][row] is None


def test_a_type_that_json_lacks_is_rejected_when_a_read_is_planned() -> None:
    source = RocketMQDataSource({"namesrv": "h:1", "subscribe": "T", "body.format": "json"})
    counts = MapType(StringType(), LongType())
    schema = StructType([StructField("body", BinaryType()), StructField("m", StructType([StructField("x", counts)]))])
    with pytest.raises(OptionError, match=r"the field m\.x is map<string,bigint>, which is not supported for JSON"):
        source.reader(schema)


def test_decimals_of_json_are_exact() -> None:
    bodies = [b'{"d":1.5}', b'{"d":"2.50"}', b'{"d":1.005}', b'{"d":1e2}', b'{"d":123456789.1}']
    columns, bad = JsonBodies([pa.field("d", pa.decimal128(10, 2))]).decode(pa.array(bodies, pa.binary()))
    exact = [Decimal("1.50"), Decimal("2.50"), None, Decimal("100.00"), None]
    assert (columns[0].to_pylist(), sorted(bad)) == (exact, [2, 4])


SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "rates", "type": {"type": "map", "values": "double"}},
        {"name": "uid", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}
ROW = {
    "id": 7,
    "note": "x",
    "at": 1_772_323_200_500,
    "rates": {"a": 1.5},
    "uid": "3f1b2c4d-0000-4000-8000-000000000001",
}


def avro(**values: Any) -> bytes:
    stream = io.BytesIO()
    schemaless_writer(stream, parse_schema(SCHEMA), {**ROW, **values})
    return stream.getvalue()


def test_avro_bodies() -> None:
    fields = [
        pa.field("uid", pa.string()),
        pa.field("id", pa.int64()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("rates", pa.map_(pa.string(), pa.float64())),
        pa.field("note", pa.string()),
    ]
    bodies = [avro(), avro(id=8, note=None), b"", avro() + b"\x00", avro(id=9)[:-3]]
    arrays, bad = AvroBodies(AvroDecoder(parsed_avro(json.dumps(SCHEMA))), fields).decode(pa.array(bodies, pa.binary()))
    uid, ids, at, rates, note = (array.to_pylist() for array in arrays)
    assert sorted(bad) == [2, 3, 4]
    assert "left after" in bad[3]
    assert ids == [7, 8, None, None, None]
    assert note == ["x", None, None, None, None]
    assert uid[0] == ROW["uid"]
    assert at[0].isoformat() == "2026-03-01T00:00:00.500000+00:00"
    assert rates[0] == [("a", 1.5)]


@pytest.mark.parametrize("policy", ["fail", "drop", "column"])
def test_bad_bodies_follow_the_policy(policy: str) -> None:
    names = ["id", *([CORRUPT_RECORD] if policy == "column" else [])]
    reader = BodyReader(JsonBodies(FIELDS[:1]), names, policy)
    bodies = pa.array([b'{"id": 1}', b"oops", b'{"id": 3}'], pa.binary())
    if policy == "fail":
        with pytest.raises(BadBody, match=r"the body of T@b:0 offset 1 does not fit body.schema: .* drop or column"):
            reader.columns(bodies, lambda row: f"T@b:0 offset {row}")
        return
    made, good = reader.columns(bodies, str)
    if policy == "drop":
        assert good is not None
        assert good.tolist() == [True, False, True]
        assert made["id"].to_pylist() == [1, 3]
    else:
        assert good is None
        assert made["id"].to_pylist() == [1, None, 3]
        assert made[CORRUPT_RECORD].to_pylist() == [None, b"oops", None]


def test_columns_of_bad_records_are_there_when_asked_for() -> None:
    assert BodyFormat("json", (("id", "bigint"),), on_bad_record="column").columns() == {
        "id": "bigint",
        CORRUPT_RECORD: "binary",
    }
    assert BodyFormat().columns() == {}
