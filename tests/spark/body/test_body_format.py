"""Options of bodies: which columns follow from them, what each format reads, and what is refused."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bolide.spark.body.body_format import BodyFormat, read_body_format
from bolide.spark.body.body_options import BODY_OPTIONS
from bolide.spark.body.body_writer import body_writer
from bolide.spark.body.typed_body import BodyReader, body_reader
from bolide.spark.errors import OptionError
from bolide.spark.source.schema import COLUMNS
from tests.bodies.avro_data import NEW, OLD, datum
from tests.bodies.protobuf_files import descriptors, orders, places, written
from tests.bodies.registry_server import Served, framed, registry
from tests.page_programs import PROGRAMS

JSON_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "total": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "at": {"type": ["null", "string"], "format": "date-time"},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
        "state": {"enum": ["open", "paid"]},
    },
    "definitions": {"line": {"type": "object", "properties": {"sku": {"type": "string"}}}},
}


def body_of(**options: str) -> BodyFormat:
    given = {("body." + name).lower(): value for name, value in options.items()}
    return read_body_format(given, COLUMNS)


def reader_of(body: BodyFormat, *fields: pa.Field[Any]) -> BodyReader:
    return body_reader(body, pa.schema(fields), [field.name for field in fields])


def read(reader: BodyReader, *bodies: bytes) -> dict[str, list[Any]]:
    made, _ = reader.columns(pa.array(bodies, pa.binary()), str)
    return {name: array.to_pylist() for name, array in made.items()}


def test_a_json_schema_names_columns() -> None:
    assert dict(body_of(format="json", schema=json.dumps(JSON_SCHEMA)).fields) == {
        "id": "bigint",
        "total": "double",
        "at": "timestamp",
        "lines": "array<struct<`sku`: string>>",
        "state": "string",
    }


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("{", "starts with { but is not a JSON Schema"),
        ('{"type": "object"}', "must be an object with properties"),
        ('{"properties": {"x": {"type": ["string", "integer"]}}}', "x has no type that is a column"),
        ('{"properties": {"x": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}', "x has several types"),
        ('{"properties": {"x": {"type": "object"}}}', "x has no type that is a column"),
        ('{"properties": {"x": {"$ref": "other.json"}}}', "x refers to a schema that is not in this document"),
        ('{"properties": {"x": {"$ref": "#/definitions/none"}}}', "x refers to a schema that is not in this document"),
        ('{"properties": {"x": {"$ref": "#/properties/x"}}}', "x contains itself"),
        ('{"$ref": "#"}', "the schema contains itself"),
        ('{"properties": {"x": {"type": "array", "items": {"$ref": "#"}}}}', "x contains itself"),
    ],
)
def test_json_schemas_that_name_no_columns(schema: str, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        body_of(format="json", schema=schema)


def test_types_of_avro_by_their_full_names() -> None:
    place = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}
    fields = [
        {"name": "a", "type": place},
        {"name": "b", "type": "shop.Place"},
        {"name": "c", "type": ["null", "Place"]},
    ]
    schema = {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}
    found = dict(body_of(format="avro", schema=json.dumps(schema)).fields)
    assert set(found.values()) == {"struct<`city`: string>"}


def test_protobuf_by_a_descriptor_set(tmp_path: Path) -> None:
    file = tmp_path / "orders.desc"
    file.write_bytes(descriptors())
    body = body_of(format="Protobuf", descriptor=str(file), message="shop.Order")
    assert dict(body.fields) == {
        "id": "decimal(20,0)",
        "total": "double",
        "place": "struct<`city`: string>",
        "at": "timestamp",
        "labels": "array<string>",
        "state": "string",
        "counts": "map<string, int>",
        "raw": "binary",
    }
    reader = reader_of(
        body,
        pa.field("counts", pa.map_(pa.string(), pa.int32())),
        pa.field("id", pa.decimal128(20, 0)),
        pa.field("place", pa.struct([pa.field("city", pa.string())])),
        pa.field("at", pa.timestamp("us", "UTC")),
    )
    values = {"id": "5", "place": {"city": "Cairo"}, "counts": {"x": 3}, "at": "2026-01-02T03:04:05Z"}
    found = read(reader, written("shop.Order", values))
    assert (found["counts"], int(found["id"][0]), found["place"]) == ([[("x", 3)]], 5, [{"city": "Cairo"}])
    assert found["at"][0].isoformat() == "2026-01-02T03:04:05+00:00"


def test_a_struct_of_its_own_may_have_fields_named_as_columns() -> None:
    with pytest.raises(OptionError, match="a field tags, which is a column of the source: name a struct"):
        body_of(format="json", schema="tags STRING")
    body = body_of(format="json", schema="tags STRING, id BIGINT", column="value", onBadRecord="column")
    assert body.columns() == {"value": "struct<`tags`: STRING, `id`: BIGINT>", "_corrupt_record": "binary"}
    kind = pa.struct([pa.field("tags", pa.string()), pa.field("id", pa.int64())])
    reader = reader_of(body, pa.field("_corrupt_record", pa.binary()), pa.field("value", kind))
    found = read(reader, b'{"tags": "x", "id": 1}', b"oops")
    assert found == {"value": [{"tags": "x", "id": 1}, None], "_corrupt_record": [None, b"oops"]}
    with pytest.raises(OptionError, match="body.column names tags, which is a column of the source"):
        body_of(format="json", schema="id BIGINT", column="tags")


def in_registry(served: Served, kind: str, **options: str) -> BodyFormat:
    return body_of(format=kind, registry=served.address, subject="orders-value", **options)


def test_avro_of_a_registry_is_resolved_to_the_newest_schema() -> None:
    with registry() as served:
        old, new = (served.add("orders-value", json.dumps(schema)) for schema in (OLD, NEW))
        body = in_registry(served, "avro", onBadRecord="column")
        assert dict(body.fields) == {"id": "bigint", "note": "string"}
        fields = [pa.field("id", pa.int64()), pa.field("note", pa.string()), pa.field("_corrupt_record", pa.binary())]
        bodies = [framed(old, datum(OLD, {"id": 1})), framed(new, datum(NEW, {"id": 2, "note": "n"})), framed(9, b"x")]
        found = read(reader_of(body, *fields), *bodies)
        assert found["id"] == [1, 2, None]
        assert found["note"] == ["none", "n", None]
        assert found["_corrupt_record"] == [None, None, bodies[2]]


def test_a_readers_schema_of_ones_own() -> None:
    narrow = {"type": "record", "name": "shop.Order", "fields": [NEW["fields"][1]]}
    with registry() as served:
        new = served.add("orders-value", json.dumps(NEW))
        body = body_of(format="avro", registry=served.address, schema=json.dumps(narrow))
        reader = reader_of(body, pa.field("note", pa.string()))
        assert read(reader, framed(new, datum(NEW, {"id": 2, "note": "n"}))) == {"note": ["n"]}
    body = body_of(format="avro", schema=json.dumps(narrow), writerSchema=json.dumps(NEW))
    reader = reader_of(body, pa.field("note", pa.string()))
    assert read(reader, datum(NEW, {"id": 2, "note": "n"})) == {"note": ["n"]}


def test_json_of_a_registry() -> None:
    with registry() as served:
        number = served.add("orders-value", json.dumps(JSON_SCHEMA), "JSON")
        avro = served.add("else", json.dumps(OLD))
        body = in_registry(served, "json", onBadRecord="column")
        reader = reader_of(body, pa.field("id", pa.int64()), pa.field("_corrupt_record", pa.binary()))
        bodies = [framed(number, b'{"id": 1}'), b'{"id": 2}', framed(number, b"{"), framed(avro, b"{}"), b""]
        found = read(reader, *bodies)
        assert found == {"id": [1, None, None, None, None], "_corrupt_record": [None, *bodies[1:]]}


def test_protobuf_of_a_registry() -> None:
    with registry() as served:
        place, order = (base64.b64encode(file.SerializeToString()).decode() for file in (places(), orders()))
        served.add("place", place, "PROTOBUF")
        reference = {"name": "shop/place.proto", "subject": "place", "version": 1}
        number = served.add("orders-value", order, "PROTOBUF", [reference])
        body = in_registry(served, "protobuf", message="shop.Order", column="value")
        reader = reader_of(body, pa.field("value", pa.struct([pa.field("total", pa.float64())])))
        found = read(reader, framed(number, b"\2\2" + written("shop.Order", {"total": 2.5})))
        assert found == {"value": [{"total": 2.5}]}


def test_the_registry_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "schemas").mkdir()
    for version, schema in (("Orders-1", OLD), ("Orders-2", NEW)):
        (tmp_path / "schemas" / f"{version}.avsc").write_text(json.dumps(schema))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(PROGRAMS)
    body = body_of(format="avro", registry="spark_registry:connect", subject="Orders", onBadRecord="column")
    reader = reader_of(body, pa.field("note", pa.string()), pa.field("_corrupt_record", pa.binary()))
    bodies = [b"Orders-2\n" + datum(NEW, {"id": 1, "note": "n"}), b"../x\n", b"Orders-1\n\2"]
    (encoded,), _ = body_writer(body).bodies(pa.array([{"id": 1, "note": "n"}]))
    assert encoded.as_py() == bodies[0]
    assert read(reader, *bodies) == {"note": ["n", None, "none"], "_corrupt_record": [None, b"../x\n", None]}


def test_a_subject_of_another_format_is_refused() -> None:
    with registry() as served:
        served.add("orders-value", json.dumps(OLD))
        with pytest.raises(OptionError, match="the subject orders-value is avro: set option body.format to that"):
            in_registry(served, "json")
        with pytest.raises(OptionError, match="option body.registry: the registry http.* has no subject nope"):
            body_of(format="avro", registry=served.address, subject="nope")


@pytest.mark.parametrize("name", [one.name for one in BODY_OPTIONS[1:]])
def test_every_option_needs_a_format(name: str) -> None:
    with pytest.raises(OptionError, match=f"option {name} needs option body.format: set it to json, avro or protobuf"):
        read_body_format({name.lower(): "x"}, COLUMNS)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"format": "json", "descriptor": "x"}, "body.descriptor is for body.format protobuf, not json"),
        ({"format": "protobuf", "schema": "x"}, "body.schema is for body.format json or avro, not protobuf"),
        ({"format": "json", "writerSchema": "x"}, "body.writerSchema is for body.format avro"),
        ({"format": "json", "subject": "x"}, "body.subject needs option body.registry"),
        ({"format": "json", "registry": "http://x", "registryUser": "x"}, "go together"),
        (
            {"format": "json", "registry": "http://x", "subject": "x", "schema": "id INT"},
            "options body.schema and body.subject contradict each other",
        ),
        (
            {"format": "avro", "registry": "http://x", "schema": "{}", "writerSchema": "{}"},
            "each body names its schema: leave body.writerSchema out",
        ),
        ({"format": "avro", "registry": "http://x"}, "needs option body.subject, or body.schema"),
        ({"format": "protobuf"}, "needs option body.descriptor: the file that protoc"),
        ({"format": "protobuf", "descriptor": "/nowhere"}, "/nowhere cannot be read on the driver"),
        ({"format": "protobuf", "descriptor": __file__}, "not a descriptor set"),
        ({"format": "avro", "registry": "redis://x", "subject": "x"}, "is neither an address"),
        ({"format": "avro", "schema": '{"type": "record", "name": "T", "fields": [], "x": 1'}, "is not JSON"),
        (
            {"format": "avro", "schema": '{"type": "record", "name": "R", "fields": [{"name": [], "type": "long"}]}'},
            "it is not an Avro schema",
        ),
        (
            {
                "format": "avro",
                "schema": '{"type": "record", "name": "R", "fields": [{"name": "x", "type": {"type": "array"}}]}',
            },
            "it is not an Avro schema: KeyError",
        ),
        ({"format": "json", "schema": '{"properties": {"x": {"oneOf": 5}}}'}, "is not a JSON Schema"),
        (
            {"format": "avro", "schema": '{"type": "record", "name": "R", "fields": [{"name": "x", "type": "lnog"}]}'},
            "the type lnog of x is not known",
        ),
    ],
)
def test_options_that_cannot_be_kept(options: dict[str, str], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        body_of(**options)
