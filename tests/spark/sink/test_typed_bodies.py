"""Writes of struct columns: options, columns, and rows that cannot be encoded."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VarcharType,
)

from bolide.layout import property_names
from bolide.layout.properties import parse_properties_bytes
from bolide.remoting.batch import decode_batch
from bolide.spark.body.body_writer import body_writer
from bolide.spark.errors import OptionError
from bolide.spark.sink.elements import BodyColumn, ElementReader, Elements
from bolide.spark.sink.messages import Refusal, Task
from bolide.spark.sink.sink_options import check_columns, sink_options
from tests.bodies.registry_server import registry

BASE = {"namesrv": "h:1", "topic": "T"}
JSON = {**BASE, "body.format": "json"}
FIELDS = [
    {"name": "id", "type": "int"},
    {"name": "note", "type": "string", "default": ""},
    {"name": "rate", "type": ["null", "double"]},
    {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": "long"}}, "default": []},
    {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
]
AVRO = {
    **BASE,
    "body.format": "avro",
    "body.schema": json.dumps({"type": "record", "name": "R", "fields": FIELDS}),
}
MOMENT = {"type": "long", "logicalType": "timestamp-micros"}
TIMES = [
    {"name": "at", "type": MOMENT},
    {"name": "all", "type": {"type": "array", "items": MOMENT}},
    {"name": "named", "type": {"type": "map", "values": MOMENT}},
]
MOMENTS = {
    **BASE,
    "body.format": "avro",
    "body.schema": json.dumps({"type": "record", "name": "M", "fields": TIMES}),
}


def struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


def check(options: dict[str, str], **columns: DataType) -> None:
    check_columns(struct(**columns), sink_options(options))


def test_fields_whose_values_the_schema_has() -> None:
    line = MapType(VarcharType(5), IntegerType())
    body = struct(id=IntegerType(), lines=ArrayType(line), rate=DoubleType(), price=DecimalType(5, 1))
    check(AVRO, body=body, tags=StringType())
    check({**AVRO, "body.column": "value"}, value=body)
    check(JSON, body=struct(at=TimestampType(), place=struct(city=StringType())))
    check({**JSON, "body.schema": "id LONG, name VARCHAR(5)"}, body=struct(id=IntegerType(), name=StringType()))


@pytest.mark.parametrize(
    ("options", "columns", "why"),
    [
        (
            BASE,
            {"body": struct(id=LongType())},
            "not struct.*; option body.format encodes a struct",
        ),
        (
            JSON,
            {"body": StringType()},
            "must be a struct with option body.format, not string",
        ),
        (JSON, {"tags": StringType()}, "needs a column body .the struct of option body.format."),
        ({**JSON, "body.column": "v"}, {"v": struct(id=LongType()), "body": StringType()}, "sink has no column body"),
        (
            AVRO,
            {"body": struct(id=LongType())},
            "body.id is bigint, and the schema of its bodies has int: cast it",
        ),
        (AVRO, {"body": struct(id=IntegerType(), x=LongType())}, "has a field x, which the schema of its bodies lacks"),
        ({**JSON, "body.column": "topic"}, {"topic": struct(id=LongType())}, "body.column names topic.*: rename the"),
        (AVRO, {"body": struct(note=StringType())}, "lacks the field id, which the schema of its bodies requires"),
        (
            AVRO,
            {"body": struct(id=IntegerType(), lines=ArrayType(MapType(StringType(), DoubleType())))},
            r"column body.lines.element.value is double, and the schema of its bodies has bigint",
        ),
        (
            AVRO,
            {"body": struct(id=IntegerType(), price=DecimalType(9, 3))},
            r"column body.price is decimal\(9,3\), and the schema of its bodies has decimal\(9,2\)",
        ),
        (
            JSON,
            {"body": struct(lines=ArrayType(struct(raw=BinaryType())))},
            r"body.lines.raw is binary, which is not supported for JSON: cast it, or write to_json\(body\) AS body",
        ),
    ],
    ids=lambda value: value[:50] if isinstance(value, str) else "",
)
def test_columns_that_do_not_fit(options: dict[str, str], columns: dict[str, DataType], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        check(options, **columns)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"body.schema": "id INT"}, "option body.schema needs option body.format"),
        ({"body.format": "xml"}, "option body.format must be json, avro or protobuf"),
        (
            {"body.format": "json", "body.onBadRecord": "drop"},
            "onBadRecord is unknown to a write .*: it is for reads",
        ),
        ({"body.format": "json", "body.registry": "http://x:1"}, "of a write needs option body.subject"),
    ],
)
def test_options_that_are_refused(options: dict[str, str], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        sink_options({**BASE, **options})


def test_the_password_is_not_printed() -> None:
    with registry() as served:
        served.add("s", '{"properties": {"id": {"type": "integer"}}}', "JSON")
        user = {"body.registryUser": "me", "body.registryPassword": "s3cret"}
        options = sink_options({**JSON, **user, "body.registry": served.address, "body.subject": "s"})
    assert options.body.registry is not None
    assert options.body.registry.password == "s3cret"
    assert "s3cret" not in repr(options)


def rows_of(options: dict[str, str], batch: pa.RecordBatch) -> tuple[list[Elements], list[Refusal]]:
    task, checked = Task("q", 0, 0), sink_options(options)
    column = BodyColumn(checked.body.column or "body", body_writer(checked.body))
    found = list(ElementReader("T", task, False, bodies=column).read(batch))
    return [one for one in found if isinstance(one, Elements)], [one for one in found if isinstance(one, Refusal)]


def test_rows_keep_their_numbers_and_a_refused_one_shows_its_fields() -> None:
    ids = [1, None, 3, None]
    kind = pa.struct([pa.field("id", pa.int32()), pa.field("rate", pa.float64())])
    values: Any = pa.array([{"id": number, "rate": 0.5} for number in ids], kind)
    options = {**AVRO, "body.column": "value"}
    batch = pa.record_batch({"value": values, "tags": pa.array(["a", "b", "c", "d"])})
    (elements,), refused = rows_of(options, batch)
    assert elements.rows.tolist() == [0, 2]
    messages = decode_batch(bytes(elements.bytes()))
    assert [message.body[:1] for message in messages] == [b"\x02", b"\x06"]
    tags = [parse_properties_bytes(bytes(message.properties))[property_names.TAGS] for message in messages]
    assert tags == ["a", "c"]
    assert [one.row for one in refused] == [1, 3]
    assert "its body cannot be encoded: the schema does not accept it" in refused[0].reason
    assert json.loads(refused[0].values["body"]) == {"id": None, "rate": 0.5}
    assert refused[0].values["tags"] == "b"


def test_large_bodies_of_several_batches_keep_their_row_numbers() -> None:
    texts = ["x" * (9 << 20), "y" * (1 << 20), None, "z" * (9 << 20)]
    kind = pa.struct([pa.field("text", pa.string())])
    structs: Any = pa.array([{"text": text} for text in texts], kind)
    schema = json.dumps({"properties": {"text": {"type": "string"}}, "required": ["text"]})
    found, refused = rows_of({**JSON, "body.schema": schema}, pa.record_batch({"body": structs}))
    assert [row for one in found for row in one.rows.tolist()] == [0, 1, 3]
    assert len(found) > 1
    assert [one.row for one in refused] == [2]
    assert "it lacks the field text" in refused[0].reason


@pytest.mark.parametrize("zone", ["GMT+8", "UTC-03:30", "Z", "CST", "Asia/Tokyo"])
@pytest.mark.parametrize("options", [JSON, MOMENTS], ids=["json", "avro"])
def test_bodies_have_the_same_times_in_each_zone_of_spark(options: dict[str, str], zone: str) -> None:
    def bodies(time: str) -> list[bytes]:
        at = pa.timestamp("us", time)
        kind = pa.struct([("at", at), ("all", pa.list_(at)), ("named", pa.map_(pa.string(), at))])
        # The second row is beyond the years of Python in UTC alone, and the third in a zone of the east alone.
        rows = [(1_793_000_000_123_456, 5), (253_402_300_800_000_000, 0), (253_402_300_799_000_000, 0), (-500, -1)]
        values = [{"at": first, "all": [first, second], "named": [("k", second)]} for first, second in rows]
        batch = pa.record_batch({"body": pa.array(values, kind), "deliver_time": pa.array([None] * 4, at)})
        found, refused = rows_of(options, batch.slice(0))
        assert [one.row for one in refused] == [1]
        assert "it has a time that is beyond the years 1 to 9999" in refused[0].reason
        return [message.body for one in found for message in decode_batch(bytes(one.bytes()))]

    assert bodies(zone) == bodies("UTC")
