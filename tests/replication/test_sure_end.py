"""A slave keeps nothing that its master may have lost."""

from __future__ import annotations

from bolide.replication.sure_end import SureEnd


def test_a_slave_is_told_no_end_beyond_what_is_surely_the_same() -> None:
    sure = SureEnd(500)
    assert sure.told(2, 400) == 400
    assert sure.told(2, 900) == 500
    sure.sent(2, 800)
    sure.sent(2, 700)
    assert sure.told(2, 900) == 800, "these bytes came from this log"
    assert sure.told(3, 900) == 500
    assert sure.told(2, 750) == 750


def test_many_replicas_are_forgotten_to_where_the_start_was() -> None:
    sure = SureEnd(500)
    sure.sent(2, 800)
    for stranger in range(1000, 1100):
        sure.sent(stranger, 600)
    assert sure.told(2, 900) == 500
    assert sure.told(1099, 900) == 600
