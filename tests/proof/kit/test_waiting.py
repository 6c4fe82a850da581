"""Errors of waits name the condition."""

from __future__ import annotations

import asyncio

import pytest

from proof.kit.waiting import holds_within, until, until_answered, wait_until


def test_a_wait_ends_when_the_condition_holds() -> None:
    tries = iter(range(10))
    wait_until(lambda: next(tries) == 2)
    asyncio.run(until(lambda: next(tries) == 5))
    assert next(tries) == 6


def test_the_error_of_a_wait_names_the_condition_or_its_place() -> None:
    with pytest.raises(AssertionError, match=r"waited 0.01 s in vain for the end"):
        wait_until(lambda: False, "the end", 0.01)
    with pytest.raises(AssertionError, match=r"in vain for the condition at .*test_waiting.py:\d+"):
        asyncio.run(until(lambda: False, seconds=0.01))
    assert not asyncio.run(holds_within(lambda: False, 0.01))


def test_the_error_of_a_wait_has_the_last_result() -> None:
    async def ask() -> int:
        return 1

    asyncio.run(until_answered(ask, 1))
    with pytest.raises(AssertionError, match="1 is still not 2 after 0.01 s"):
        asyncio.run(until_answered(ask, 2, 0.01))
