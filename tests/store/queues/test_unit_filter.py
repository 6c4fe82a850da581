"""What a filter bitmap rules out, and when it says nothing."""

from __future__ import annotations

from bolide.layout.bloom import empty_bitmap, set_bits
from bolide.store.queues.unit_filter import UnitFilter

BORN = 1000


def bitmap(*positions: int, bits: int = 112) -> bytes:
    made = empty_bitmap(bits)
    set_bits(made, positions)
    return bytes(made)


def test_a_record_passes_when_all_bits_are_set() -> None:
    units = UnitFilter([3, 40, 111], 112, BORN)
    assert units.passes(BORN + 1, bitmap(3, 40, 111, 7))
    assert not units.passes(BORN + 1, bitmap(3, 40))


def test_unit_without_bit_of_the_group_passes() -> None:
    units = UnitFilter([3], 112, BORN)
    assert units.passes(BORN, bitmap())  # stored before the group was known
    assert not units.passes(BORN + 1, bitmap())
    assert units.passes(BORN + 1, b"")
    assert units.passes(BORN + 1, bitmap(bits=120))
