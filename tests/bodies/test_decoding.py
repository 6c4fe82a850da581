"""Decoded values as JSON that can be printed, whatever a body holds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bolide.bodies.decoding import as_text
from bolide.bodies.registry import UnfitBody


def test_half_a_surrogate_pair_can_be_printed() -> None:
    text = as_text({"name": json.loads(r'"\ud800é"')})
    assert text.encode() == r'{"name": "\ud800é"}'.encode()
    assert json.loads(text) == {"name": "\ud800é"}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_value_that_is_nested_too_deeply_is_a_bad_body(indent: int | None) -> None:
    value: Any = None
    for _ in range(100_000):
        value = [value]
    with pytest.raises(UnfitBody, match="nested too deeply"):
        as_text(value, indent)
