"""Delayed messages and clocks: one that is set, and one of another machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.delay.delaying import LEVELS, Delaying
from tests.broker.parts import NOW


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Delaying]:
    made = Delaying(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("ahead", [1, 500, 3_600_000])
def test_what_a_clock_stored_that_was_ahead_waits_for_its_delay_and_no_longer(parts: Delaying, ahead: int) -> None:
    """Another machine was the master, or the clock was set back: nothing comes early, and nobody waits for hours."""
    ten = LEVELS[2]
    for at in (0, 1, 700):
        parts.delayed(3, b"ahead", now=NOW + ahead + at)
    parts.delayed(3, b"own", now=NOW + 10)
    parts.tick(NOW)
    found = []
    for now in (ten - 1, ten, ten + 1, ten + 10, ten + 699, ten + 700, ten + 701):
        parts.tick(NOW + now)
        found.append(len(parts.delivered()))
    assert found == [0, 1, 2, 2, 2, 4, 4]


def test_what_comes_after_a_clock_that_was_ahead_goes_by_the_own_one(parts: Delaying) -> None:
    parts.delayed(1, now=NOW + 5_000)
    parts.tick(NOW)
    parts.delayed(1, now=NOW + 900)
    parts.tick(NOW + 1_000)
    assert len(parts.delivered()) == 1
    parts.tick(NOW + 1_899)
    assert len(parts.delivered()) == 1
    parts.tick(NOW + 1_900)
    assert len(parts.delivered()) == 2


def test_a_clock_that_is_further_ahead_for_the_next_message_is_found(parts: Delaying) -> None:
    parts.delayed(1, now=NOW + 5_000)
    parts.delayed(1, now=NOW + 3_600_000)
    parts.tick(NOW)
    parts.tick(NOW + 1_000)
    assert len(parts.delivered()) == 1
    parts.tick(NOW + 2_000)
    assert len(parts.delivered()) == 2


@pytest.mark.parametrize("step", [-3_600_000, 3_600_000])
def test_a_clock_that_is_set_neither_hurries_nor_delays_what_waits(parts: Delaying, step: int) -> None:
    ten = LEVELS[2]
    parts.delayed(3, b"before")
    parts.store.clock_set(step)
    parts.delayed(3, b"after", NOW + 2_000)
    parts.tick(NOW + ten - 1)
    assert parts.delivered() == []
    parts.tick(NOW + ten)
    parts.tick(NOW + ten + 1_999)
    assert [record.body for record in parts.delivered()] == [b"before"]
    parts.tick(NOW + ten + 2_000)
    assert [record.body for record in parts.delivered()] == [b"before", b"after"]
    assert parts.delivered()[1].store_timestamp == NOW + ten + 2_000 + step
