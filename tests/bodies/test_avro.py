"""Avro data by a schema, by the schemas of a registry, and resolved to a reader's schema."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from bolide.bodies.avro import AvroDecoder, AvroEncoder, parsed_avro
from bolide.bodies.confluent import ConfluentRegistry
from bolide.bodies.registry import RegistryAddress, SchemaError, UnfitBody
from tests.bodies.avro_data import NEW, OLD, datum
from tests.bodies.registry_server import framed, registry


def test_data_of_an_older_schema_is_read_as_the_newer() -> None:
    decode = AvroDecoder(parsed_avro(json.dumps(OLD)), parsed_avro(json.dumps(NEW))).decode
    assert decode(datum(OLD, {"id": 7})) == {"id": 7, "note": "none"}


def test_each_body_has_the_schema_that_it_names() -> None:
    with registry() as served:
        old, new = (served.add("orders-value", json.dumps(schema)) for schema in (OLD, NEW))
        other = served.add("else", "{}", "JSON")
        broken = served.add("broken", '{"type": "lnog"}')
        asking = ConfluentRegistry(RegistryAddress(served.address))
        decode = AvroDecoder(None, parsed_avro(json.dumps(NEW)), asking).decode

        for _ in range(2):
            assert decode(framed(old, datum(OLD, {"id": 7}))) == {"id": 7, "note": "none"}
            assert decode(framed(new, datum(NEW, {"id": 8, "note": "x"}))) == {"id": 8, "note": "x"}
        for body, why in (
            (framed(other, b"{}"), "which is json"),
            (framed(broken, b""), "schema 4 cannot be used"),
            (framed(old, b""), "does not match its schema"),
            (framed(old, b"\x02\x02"), "1 bytes are left"),
        ):
            with pytest.raises(UnfitBody, match=why):
                decode(body)
        assert len(served.asked) == 4


def test_a_type_of_another_schema() -> None:
    place = '{"type": "record", "name": "shop.Place", "fields": [{"name": "city", "type": "string"}]}'
    order = {"type": "record", "name": "shop.Order", "fields": [{"name": "place", "type": "Place"}]}
    decode = AvroDecoder(parsed_avro(json.dumps(order), (("shop.Place", place),))).decode
    assert decode(b"\x06abc") == {"place": {"city": "abc"}}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ('{"type": "lnog"}', "it is not an Avro schema"),
        ("{", "it is not an Avro schema"),
        ('{"type": "record", "name": "T", "fields": [{"name": "of", "type": ["null", "T"]}]}', "T contains itself"),
        ('{"type": "array", "items": "null"}', "items of no bytes"),
    ],
)
def test_a_schema_that_cannot_be_used(schema: str, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        parsed_avro(schema)


def of_decimals(**more: Any) -> Any:
    return parsed_avro(json.dumps({"type": "bytes", "logicalType": "decimal", "precision": 4, **more}))


def test_decimals() -> None:
    assert AvroDecoder(of_decimals(scale=2)).decode(b"\x04\x04\xd2") == Decimal("12.34")
    assert AvroDecoder(of_decimals(scale=2), of_decimals(scale=2)).decode(b"\x02\xff") == Decimal("-0.01")
    assert AvroDecoder(of_decimals(precision=None)).decode(b"\x02\xff") == b"\xff"
    amount = '{"type": "fixed", "name": "Amount", "size": 2, "logicalType": "decimal", "precision": 4}'
    order = {"type": "record", "name": "R", "fields": [{"name": "of", "type": "Amount"}]}
    decode = AvroDecoder(parsed_avro(json.dumps(order), (("Amount", amount),))).decode
    assert decode(b"\x04\xd2") == {"of": Decimal(1234)}


def test_a_decimal_with_more_digits_than_its_schema_allows_is_a_bad_body() -> None:
    huge = b"\x80\x89\x7a" + b"\x7f" * 1_000_000  # fastavro would compute for minutes
    for body in (huge, b"\x04\x7f\xff"):
        with pytest.raises(UnfitBody, match="more than 4 digits"):
            AvroDecoder(of_decimals()).decode(body)
    with pytest.raises(SchemaError, match="a decimal of 1001 digits, 1000 at most"):
        of_decimals(precision=1001)


ALL_TYPES = {
    "id": "int",
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "day": {"type": "int", "logicalType": "date"},
    "amount": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}],
    "uid": {"type": "string", "logicalType": "uuid"},
    "short": {"type": "fixed", "name": "Short", "size": 16, "logicalType": "uuid"},
    "state": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]},
    "lines": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "long"}]}},
    "rates": {"type": "map", "values": "double"},
}
UID = "3f1b2c4d-0000-4000-8000-000000000001"
VALUES = {
    "id": 7,
    "at": datetime(1960, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    "day": date(2026, 3, 1),
    "amount": Decimal("-12.3"),
    "uid": UID,
    "short": UID,
    "state": "PAID",
    "lines": [{"n": 1}, {"n": 2}],
    "rates": {"a": 1.5},
}


def of_types(**types: Any) -> Any:
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    return parsed_avro(json.dumps({"type": "record", "name": "R", "fields": fields}))


def test_encoded_values_are_read_back() -> None:
    schema = of_types(**ALL_TYPES)
    decoded = AvroDecoder(schema).decode(AvroEncoder(schema).encode(VALUES))
    assert decoded == {**VALUES, "uid": UUID(UID), "short": UUID(UID)}
    assert AvroDecoder(schema).decode(AvroEncoder(schema).encode({**VALUES, "amount": None}))["amount"] is None
    newer = parsed_avro(json.dumps(NEW))
    assert AvroDecoder(newer).decode(AvroEncoder(newer).encode({"id": 1})) == {"id": 1, "note": "none"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", None),
        ("amount", Decimal("12345.67")),
        ("amount", Decimal("0.001")),
        ("uid", "x"),
        ("short", "x"),
        ("state", "LOST"),
        ("lines", [None]),
        ("rates", {"a": None}),
    ],
)
def test_a_value_that_does_not_fit_is_not_encoded(field: str, value: object) -> None:
    with pytest.raises(UnfitBody, match="the schema does not accept it"):
        AvroEncoder(of_types(**ALL_TYPES)).encode({**VALUES, field: value})
