"""Java's hashes against its own results."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bolide.layout.hashes import index_hash, java_hash, tags_code
from tests.layout.vectors import vectors


@pytest.mark.parametrize("vector", vectors()["index_keys"], ids=lambda v: v["text"])
def test_index_keys(vector: dict[str, Any]) -> None:
    assert java_hash(vector["text"]) == vector["javaHash"]
    assert index_hash(vector["text"]) == vector["hash"]
    assert index_hash(vector["text"]) % 5_000_000 == vector["slot"]


@pytest.mark.parametrize("vector", vectors()["tags_hashes"], ids=lambda v: str(v["tags"]))
def test_tags(vector: dict[str, Any]) -> None:
    assert tags_code(vector["tags"] or "") == vector["tagsCode"]


@given(st.text())
def test_hash_runs_over_utf16_units(text: str) -> None:
    h = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(raw), 2):
        h = (31 * h + int.from_bytes(raw[at : at + 2], "big")) & 0xFFFFFFFF
    assert java_hash(text) & 0xFFFFFFFF == h
    assert -(2**31) <= java_hash(text) < 2**31
    assert index_hash(text) >= 0
