"""The bloom filter against Java's."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.layout.bloom import BloomFilter, empty_bitmap, has_bits, member_text, set_bits
from tests.layout.vectors import vectors


@pytest.mark.parametrize("vector", vectors()["bloom"], ids=lambda v: f"{v['f']} {v['n']} {v['text']}")
def test_bloom(vector: dict[str, Any]) -> None:
    bloom = BloomFilter.of(vector["f"], vector["n"])
    assert (bloom.hashes, bloom.bits) == (vector["k"], vector["m"])
    positions = bloom.positions(vector["text"])
    assert positions == vector["positions"]
    bitmap = empty_bitmap(bloom.bits)
    assert not has_bits(bitmap, positions)
    set_bits(bitmap, positions)
    assert bitmap.hex() == vector["bitmap"]
    assert has_bits(bitmap, positions)
    assert not has_bits(b"", positions)
    assert member_text("group", "topic") == "group#topic"
