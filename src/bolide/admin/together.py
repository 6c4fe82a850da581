"""Several requests at the same time, up to a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

K = TypeVar("K")
T = TypeVar("T")

AT_ONCE: Final = 16
"""Maximum number of requests of one call at the same time."""


async def each(keys: Iterable[K], ask: Callable[[K], Awaitable[T]], at_once: int = AT_ONCE) -> dict[K, T]:
    """Return the results of `ask` by key. Raises the first error."""
    gate = asyncio.Semaphore(at_once)

    async def one(key: K) -> T:
        async with gate:
            return await ask(key)

    wanted = list(keys)
    found = await asyncio.gather(*(one(key) for key in wanted))
    return dict(zip(wanted, found, strict=True))
