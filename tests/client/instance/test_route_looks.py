"""A replaced master is found soon, and a busy one is not asked about all the time."""

from __future__ import annotations

from bolide.client.instance.route_looks import FIRST_PAUSE, LONGEST_PAUSE, QUIET, RouteLooks


def test_pauses_grow_to_a_second_and_begin_again_after_a_quiet_time() -> None:
    looks, now, pauses = RouteLooks(), 100.0, []
    assert looks.may("T", now)
    for _ in range(8):
        looks.looked("T", now)
        assert not looks.may("T", now)
        assert looks.may("U", now), "each topic for itself"
        pause = FIRST_PAUSE
        while not looks.may("T", now + pause + 1e-6):
            pause *= 2
        pauses.append(round(pause, 2))
        now += pause + 1e-6
    assert pauses[:4] == [0.05, 0.1, 0.2, 0.4]
    assert max(pauses) <= 2 * LONGEST_PAUSE
    looks.looked("T", now + QUIET)
    assert looks.may("T", now + QUIET + FIRST_PAUSE + 1e-6)
