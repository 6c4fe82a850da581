"""Answers that are kept for a moment."""

from __future__ import annotations

import asyncio

import pytest

from bolide.console.cached import Cached
from tests.console.browsing import Clock


async def test_a_question_is_asked_once_until_its_answer_is_old() -> None:
    clock = Clock()
    cached = Cached(clock, most=2)
    asked: list[str] = []

    async def ask() -> int:
        await asyncio.sleep(0)
        asked.append("asked")
        return len(asked)

    assert await asyncio.gather(*(cached.get("a", ask) for _ in range(5))) == [1] * 5
    clock.now += 1.9
    assert await cached.get("a", ask) == 1
    clock.now += 0.2
    assert await cached.get("a", ask) == 2
    assert [await cached.get(key, ask) for key in "bc"] == [3, 4]
    assert await cached.get("a", ask) == 5
    cached.forget()
    assert await cached.get("a", ask) == 6


async def test_a_failure_is_told_to_all_that_wait_and_not_kept() -> None:
    cached = Cached(Clock())
    answers = iter((ValueError("no"), None))

    async def ask() -> str:
        await asyncio.sleep(0)
        failure = next(answers)
        if failure is not None:
            raise failure
        return "yes"

    found = await asyncio.gather(*(cached.get("a", ask) for _ in range(2)), return_exceptions=True)
    assert [str(each) for each in found] == ["no", "no"]
    assert await cached.get("a", ask) == "yes"


async def test_cancelled_caller_leaves_the_result_to_others() -> None:
    cached = Cached(Clock())
    ready = asyncio.Event()

    async def ask() -> str:
        await ready.wait()
        return "yes"

    first = asyncio.ensure_future(cached.get("a", ask))
    second = asyncio.ensure_future(cached.get("a", ask))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    ready.set()
    assert await second == "yes"
    with pytest.raises(asyncio.CancelledError):
        await first
