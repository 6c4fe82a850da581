"""Up to where a set is known to hold the log of a replica."""

from __future__ import annotations

from bolide.replication.held_by_set import HeldBySet


def test_offset_falls_only_with_a_truncation() -> None:
    held = HeldBySet(10)
    held.told(20)
    held.told(15)
    assert held.offset == 20
    held.cut(30)
    assert held.offset == 20
    held.cut(12)
    assert held.offset == 12
