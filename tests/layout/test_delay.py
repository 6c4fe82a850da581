"""Delay levels and times of delivery."""

from __future__ import annotations

from bolide.layout.delay import delivery_time, level_of_queue, parse_delay_levels, queue_of_level


def test_delivery() -> None:
    levels = parse_delay_levels("1s 5s")
    assert delivery_time(levels, 2, 1_000) == 6_000
    assert delivery_time(levels, 3, 1_000) == 2_000, "a level the table lacks waits one second"
    assert level_of_queue(queue_of_level(7)) == 7
