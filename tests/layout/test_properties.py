"""The properties string against Java's parser and writer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bolide.layout.properties import format_properties, parse_properties, parse_properties_bytes, property_value
from tests.layout.vectors import vectors


@pytest.mark.parametrize("vector", vectors()["message_properties"], ids=lambda v: v["op"] + " " + repr(v["text"]))
def test_vectors(vector: dict[str, Any]) -> None:
    if vector["op"] == "encode":
        assert format_properties(vector["properties"]) == vector["text"]
        assert format_properties(vector["properties"]).encode().hex() == vector["hex"]
    else:
        assert parse_properties(vector["text"]) == vector["properties"]


PART = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1)


@given(st.dictionaries(PART, PART))
def test_round_trip(pairs: dict[str, str]) -> None:
    assert parse_properties(format_properties(pairs)) == pairs
    # 4.9.3 and later of that line leave the last separator out.
    assert parse_properties(format_properties(pairs)[:-1]) == pairs


@given(st.text(st.sampled_from("ab\x01\x02é"), max_size=40))
def test_property_value_equals_full_parsing(text: str) -> None:
    raw = text.encode()
    pairs = parse_properties_bytes(raw)
    for name in ("a", "b", "ab", "aa", "é", "aé"):
        assert property_value(raw, name) == pairs.get(name)


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert parse_properties_bytes(b"a\x01\xff\x02") == {"a": "�"}
