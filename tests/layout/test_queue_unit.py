"""Queue units: round trips, and which count."""

from __future__ import annotations

from hypothesis import given
from librt.strings import BytesWriter

from bolide.layout import queue_unit
from tests.layout.strategies import INT32, INT64


@given(INT64, INT32, INT64)
def test_queue_unit(physical_offset: int, size: int, tags_code: int) -> None:
    w = BytesWriter()
    queue_unit.write_unit(w, physical_offset, size, tags_code)
    raw = w.getvalue()
    assert len(raw) == queue_unit.UNIT_SIZE
    assert queue_unit.read_unit(b"x" + raw, 1) == (physical_offset, size, tags_code)
    valid = physical_offset >= 0 and size > 0
    assert queue_unit.unit_is_valid(physical_offset, size) == valid
    assert queue_unit.count_valid_units(queue_unit.PRE_BLANK + raw + bytes(20)) == 1 + valid


def test_pre_blank_is_a_valid_unit_of_no_record() -> None:
    assert queue_unit.read_unit(queue_unit.PRE_BLANK, 0) == (0, 0x7FFFFFFF, 0)
    assert queue_unit.count_valid_units(queue_unit.PRE_BLANK * 3 + b"\0" * 19) == 3
