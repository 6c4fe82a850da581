"""The checkpoint: round trip and the margin of its times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bolide.layout.checkpoint import CHECKPOINT_SIZE, Checkpoint, decode_checkpoint
from bolide.layout.errors import LayoutError
from tests.layout.strategies import INT64


@given(st.tuples(INT64, INT64, INT64, INT64, INT64, INT64))
def test_checkpoint(fields: tuple[int, int, int, int, int, int]) -> None:
    raw = Checkpoint(*fields).encode()
    assert len(raw) == CHECKPOINT_SIZE
    assert decode_checkpoint(raw) == Checkpoint(*fields)


def test_checkpoint_margin() -> None:
    assert Checkpoint(10_000, 9_000).min_timestamp == 6_000
    assert Checkpoint(10_000, 1_000).min_timestamp == 0
    assert Checkpoint(10_000, 9_000, 5_000).min_timestamp_with_index == 5_000
    with pytest.raises(LayoutError, match=r"delete the file"):
        decode_checkpoint(bytes(47))
