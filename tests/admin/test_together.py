"""Requests at the same time."""

from __future__ import annotations

import asyncio

from bolide.admin.together import each


async def test_some_requests_at_the_same_time() -> None:
    out = most = 0

    async def ask(number: int) -> int:
        nonlocal out, most
        out += 1
        most = max(most, out)
        await asyncio.sleep(0)
        out -= 1
        return number * 2

    assert await each(range(10), ask, at_once=3) == {number: number * 2 for number in range(10)}
    assert most == 3
