"""Each schema of a registry is parsed once, also one that cannot be used."""

from __future__ import annotations

import pytest

from bolide.bodies.parsed_schemas import ParsedSchemas
from bolide.bodies.registry import AVRO, JSON, RegisteredSchema, SchemaError, UnfitBody


def test_each_schema_is_parsed_once() -> None:
    parsed: list[str] = []

    def parse(schema: RegisteredSchema) -> str | None:
        parsed.append(schema.text)
        if schema.text == "broken":
            raise SchemaError("it is broken")
        return None if schema.text == "none" else schema.text.upper()

    schemas = ParsedSchemas({AVRO: parse})
    for _ in range(2):
        assert schemas.of(RegisteredSchema(1, AVRO, "one")) == "ONE"
        assert schemas.of(RegisteredSchema(2, AVRO, "none")) is None
        with pytest.raises(UnfitBody, match="schema 3 cannot be used: it is broken"):
            schemas.of(RegisteredSchema(3, AVRO, "broken"))
        with pytest.raises(UnfitBody, match="it is written with schema 4, which is json"):
            schemas.of(RegisteredSchema(4, JSON, "{}"))
    assert parsed == ["one", "none", "broken"]
