"""Struct columns as bodies: a reader finds the same values, and a row that does not fit harms no other."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from bolide.bodies.registry import RegistryAddress
from bolide.spark.body.body_format import BodyFormat
from bolide.spark.body.body_writer import BodyWriter, body_writer
from bolide.spark.body.typed_body import body_reader
from bolide.spark.errors import OptionError
from bolide.spark.sink.typed_bodies import written_body
from tests.bodies.avro_data import OLD
from tests.bodies.protobuf_files import descriptors, orders, places
from tests.bodies.registry_server import framed, registry
from tests.page_programs import PROGRAMS

AT = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC)
LINE = pa.struct([pa.field("n", pa.int32()), pa.field("rates", pa.map_(pa.string(), pa.float64()))])
AVRO_LINE = {
    "type": "record",
    "name": "Line",
    "fields": [
        {"name": "n", "type": ["null", "int"]},
        {"name": "rates", "type": ["null", {"type": "map", "values": "double"}]},
    ],
}


def avro_schema(**types: Any) -> str:
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def body_of(**options: str) -> BodyFormat:
    return written_body({f"body.{name}".lower(): value for name, value in options.items()})


def structs(fields: list[pa.Field[Any]], *rows: dict[str, Any] | None) -> Any:
    return pa.array(rows, pa.struct(fields))


def there_and_back(body: BodyFormat, fields: list[pa.Field[Any]], *rows: dict[str, Any] | None) -> list[dict[str, Any]]:
    data, unfit = body_writer(body).bodies(structs(fields, *rows))
    assert unfit == {}
    made, _ = body_reader(body, pa.schema(fields), [field.name for field in fields]).columns(data, str)
    table = pa.table(made)
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def test_avro() -> None:
    schema = avro_schema(
        id="long",
        at={"type": "long", "logicalType": "timestamp-micros"},
        price=["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
        lines={"type": "array", "items": AVRO_LINE},
        raw="bytes",
    )
    fields = [
        pa.field("id", pa.int64()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("lines", pa.list_(LINE)),
        pa.field("raw", pa.binary()),
    ]
    rows: list[dict[str, Any]] = [
        {"id": 1, "at": AT, "price": Decimal("1.25"), "lines": [{"n": 1, "rates": [("a", 0.5)]}], "raw": b"\xff"},
        {"id": 2, "at": AT, "price": None, "lines": [], "raw": b""},
        {"id": 3, "at": AT, "price": None, "lines": [{"n": None, "rates": None}, {"n": 2, "rates": []}], "raw": b"x"},
    ]
    assert there_and_back(body_of(format="avro", schema=schema), fields, *rows) == rows


def test_json() -> None:
    fields = [
        pa.field("id", pa.int64()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("day", pa.date32()),
        pa.field("place", pa.struct([pa.field("city", pa.string())])),
        pa.field("prices", pa.list_(pa.decimal128(38, 2))),
    ]
    exact = Decimal("123456789012345678901234567890123456.70")
    rows: list[dict[str, Any]] = [
        {"id": 1, "at": AT, "day": date(2026, 3, 1), "place": {"city": "Cairo \u2028"}, "prices": [exact, None]},
        {"id": None, "at": None, "day": None, "place": None, "prices": None},
    ]
    assert there_and_back(body_of(format="json"), fields, *rows) == rows


def test_protobuf(tmp_path: Any) -> None:
    file = tmp_path / "orders.desc"
    file.write_bytes(descriptors())
    fields = [
        pa.field("id", pa.decimal128(20, 0)),
        pa.field("place", pa.struct([pa.field("city", pa.string())])),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("labels", pa.list_(pa.string())),
        pa.field("state", pa.string()),
        pa.field("counts", pa.map_(pa.string(), pa.int32())),
    ]
    row = {
        "id": Decimal(2**64 - 1),
        "place": {"city": "Cairo"},
        "at": AT,
        "labels": ["a"],
        "state": "PAID",
        "counts": [("x", 3)],
    }
    body = body_of(format="protobuf", descriptor=str(file), message="shop.Order")
    assert there_and_back(body, fields, row) == [row]


def test_a_row_that_does_not_fit_is_alone_and_shown_as_json() -> None:
    writer = body_writer(body_of(format="avro", schema=avro_schema(id="long", note=["null", "string"])))
    fields = [pa.field("id", pa.int64()), pa.field("note", pa.string())]
    data, unfit = writer.bodies(structs(fields, {"id": 1}, {"note": "é"}, None, {"id": 4}))
    assert data.to_pylist() == [b"\x02\x00", None, None, b"\x08\x00"]
    assert list(unfit) == [1]
    assert unfit[1].reason.startswith("its body cannot be encoded: the schema does not accept it")
    assert unfit[1].shown is not None
    assert json.loads(unfit[1].shown) == {"id": None, "note": "é"}


def test_text_that_is_not_utf8_and_a_time_beyond_python_are_refused() -> None:
    bad = pa.Array.from_buffers(pa.string(), 3, pa.array([b"a", b"\xff", b"b"], pa.binary()).buffers())
    late = pa.array([0, 0, 2**62], pa.timestamp("us", "UTC"))
    data, unfit = body_writer(body_of(format="json")).bodies(pa.StructArray.from_arrays([bad, late], ["text", "at"]))
    assert data[0].as_py() == b'{"text":"a","at":"1970-01-01T00:00:00Z"}'
    assert unfit[1].reason == "it contains text that is not valid UTF-8"
    assert "beyond the years" in unfit[2].reason


def test_bodies_begin_with_the_id_of_the_newest_schema() -> None:
    with registry() as served:
        served.add("orders-value", json.dumps(OLD))
        order = base64.b64encode(orders().SerializeToString()).decode()
        served.add("place", base64.b64encode(places().SerializeToString()).decode(), "PROTOBUF")
        reference = {"name": "shop/place.proto", "subject": "place", "version": 1}
        served.add("order", order, "PROTOBUF", [reference])
        schema = json.dumps({"properties": {"id": {"type": "integer"}}, "required": ["id"]})
        served.add("json", schema, "JSON")

        def writer(kind: str, subject: str, **more: str) -> BodyWriter:
            return body_writer(body_of(format=kind, registry=served.address, subject=subject, **more))

        ids = structs([pa.field("id", pa.int32())], {"id": 3}, {"id": None})
        assert writer("avro", "orders-value").bodies(ids)[0][0].as_py() == framed(1, b"\x06")
        data, unfit = writer("json", "json").bodies(ids)
        assert data[0].as_py() == framed(4, b'{"id":3}')
        assert "it lacks the field id, which its schema requires" in unfit[1].reason
        totals = structs([pa.field("state", pa.string())], {"state": "PAID"})
        message = writer("protobuf", "order", message="shop.Order").bodies(totals)[0][0].as_py()
        assert message == framed(3, b"\x30\x01", (1,))


def test_a_registry_that_only_reads_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PROGRAMS)
    body = BodyFormat("json", registry=RegistryAddress("tests.spark.body.test_body_writer:read_only"))
    with registry() as served:
        served.add("s", '{"properties": {"id": {"type": "integer"}}}', "JSON")
        registered = body_of(format="json", registry=served.address, subject="s").registered
    with pytest.raises(OptionError, match="read_only cannot be written for, because it has no method frame"):
        body_writer(BodyFormat("json", registry=body.registry, registered=registered))


def read_only() -> object:
    """Return a registry without `frame`."""
    return object()
