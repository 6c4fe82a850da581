"""A log whose disk hangs is noticed, and one that is idle, slow or was stopped is not taken for it."""

from __future__ import annotations

from bolide.replication.settling import Settling

PATIENCE = 10_000


def hung_at(made: Settling, *, begin: int, end: int, waits: bool = True, moves: int = 0) -> list[int]:
    """The times of looks, from `begin` to `end`, at which it hangs. The log moves every `moves` ms, 0: not at all."""
    progress = 100
    return [
        now
        for now in range(begin, end + 1, 1_000)
        if made.looked(waits=waits, progress=progress + (now // moves if moves else 0), now=now)
    ]


def test_disk_hangs_beyond_patience_until_progress() -> None:
    made = Settling(PATIENCE)
    assert hung_at(made, begin=1_000, end=14_000) == [12_000, 13_000, 14_000]
    assert made.hung and not made.looked(waits=True, progress=101, now=15_000) and not made.hung


def test_disk_stops_hanging_without_waiting_data() -> None:
    made = Settling(PATIENCE)
    assert hung_at(made, begin=1_000, end=14_000)
    assert not made.looked(waits=False, progress=100, now=15_000)


def test_an_idle_log_does_not_hang() -> None:
    assert hung_at(Settling(PATIENCE), begin=1_000, end=60_000, waits=False) == []


def test_a_slow_disk_does_not_hang() -> None:
    assert hung_at(Settling(PATIENCE), begin=1_000, end=90_000, moves=9_000) == []


def test_a_process_that_was_stopped_did_not_wait_for_its_disk() -> None:
    made = Settling(PATIENCE)
    assert hung_at(made, begin=1_000, end=3_000) == []
    assert not made.looked(waits=True, progress=100, now=60_000)
