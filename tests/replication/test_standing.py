"""What a replica does about what its controller says, in whatever order the answers come."""

from __future__ import annotations

import pytest

from bolide.replication.standing import Standing, Step, Told

TWO = frozenset({1, 2})


def told(master: int | None, epoch: int, address: str = "a:1") -> Told:
    return Told(master, address if master is not None else "", epoch, TWO, 5)


def taken(*parts: Told) -> Standing:
    made = Standing(1)
    for part in parts:
        made.took(part)
    return made


@pytest.mark.parametrize(
    ("before", "heard", "step"),
    [
        ([], told(1, 3), Step.LEAD),
        ([], told(2, 3), Step.FOLLOW),
        ([], told(None, 0), Step.ELECT),
        ([told(1, 3)], told(1, 3), Step.COUNT),
        ([told(1, 3)], told(2, 4), Step.FOLLOW),
        ([told(1, 3)], told(1, 5), Step.LEAD),
        ([told(1, 3)], told(None, 4), Step.ELECT),
        ([told(1, 3)], told(2, 2), Step.NOTHING),
        ([told(1, 3)], told(None, 2), Step.NOTHING),
        ([told(2, 3)], told(2, 3), Step.NOTHING),
        ([told(2, 3)], told(2, 3, "b:1"), Step.FOLLOW),
        ([told(2, 3)], told(1, 4), Step.LEAD),
        ([told(2, 3), told(1, 4)], told(2, 3), Step.NOTHING),
    ],
)
def test_older_answer_is_ignored(before: list[Told], heard: Told, step: Step) -> None:
    assert taken(*before).heard(heard) is step


def test_a_part_that_could_not_be_taken_is_taken_with_the_next_answer() -> None:
    made = taken(told(1, 3))
    assert made.leads
    made.lost()
    assert not made.leads
    assert made.heard(told(1, 3)) is Step.LEAD
    assert made.heard(told(2, 2)) is Step.NOTHING
