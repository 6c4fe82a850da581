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


def test_bolides_fields_follow_those_of_java() -> None:
    for own in (Checkpoint(1, run_id=7, synced_end=8, held_offset=9), Checkpoint(1, held_offset=9)):
        assert decode_checkpoint(own.encode()) == own
    before = Checkpoint(1, run_id=7, synced_end=8).encode()
    assert before[48:80] == b"BOLIDE 1" + (7).to_bytes(8) + (8).to_bytes(8) + bytes(8), "as before `held_offset`"
