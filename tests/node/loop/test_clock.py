"""The clock of a node: its `now` never jumps, and the wall clock is followed only once it has settled."""

from __future__ import annotations

import pytest

from bolide.node.loop.clock import CONFIRM_MS, LOOK_MS, Clock

DAY = 86_400_000


class Hands:
    """A wall clock that can be set, and the time that passes."""

    def __init__(self) -> None:
        self.passed = 5_000
        self.set_by = 1_700_000_000_000
        self.clock = Clock(lambda: self.set_by + self.passed, lambda: self.passed)
        self.steps: list[int] = []

    def later(self, milliseconds: int) -> None:
        """Let time pass, in looks."""
        end = self.passed + milliseconds
        while self.passed < end:
            self.passed = min(self.passed + LOOK_MS, end)
            if self.clock.moved(self.clock.now()):
                self.steps.append(self.clock.offset)


@pytest.mark.parametrize("step", [DAY, -3_600_000])
def test_now_goes_on_when_the_wall_clock_is_set(step: int) -> None:
    hands = Hands()
    before = hands.clock.now()
    assert before == hands.set_by + hands.passed
    hands.set_by += step
    assert hands.clock.now() == before
    hands.later(250)
    assert hands.clock.now() == before + 250


def test_a_wall_clock_that_was_wrong_for_a_moment_is_not_followed() -> None:
    hands = Hands()
    hands.later(LOOK_MS)
    hands.set_by += DAY
    hands.later(CONFIRM_MS - LOOK_MS)
    hands.set_by -= DAY
    hands.later(2 * CONFIRM_MS)
    assert (hands.steps, hands.clock.offset) == ([], 0)


def test_a_wall_clock_that_was_set_for_good_is_followed_once() -> None:
    hands = Hands()
    hands.set_by -= 3_600_000
    hands.later(CONFIRM_MS)
    assert hands.steps == []
    hands.later(2 * LOOK_MS)
    assert hands.steps == [-3_600_000]
    hands.later(2 * CONFIRM_MS)
    assert hands.steps == [-3_600_000]


def test_a_wall_clock_that_keeps_jumping_is_waited_for() -> None:
    hands = Hands()
    for _ in range(5):
        hands.set_by += 10_000
        hands.later(CONFIRM_MS - LOOK_MS)
    assert hands.steps == []
    hands.later(CONFIRM_MS)
    assert hands.steps == [50_000]


def test_a_difference_of_a_few_milliseconds_is_none() -> None:
    hands = Hands()
    hands.set_by += 50
    hands.later(3 * CONFIRM_MS)
    assert hands.steps == []
