"""A cache of the cluster's responses for a few seconds: many viewers of a page cost the brokers as little as one."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")

SECONDS: Final = 2.0
MOST: Final = 1_000
"""Maximum number of cached responses. The oldest is removed first."""


class Cached:
    """Caches the results of queries by key until they expire. Does not cache failures."""

    def __init__(self, clock: Callable[[], float], most: int = MOST) -> None:
        self._clock = clock
        self._most = most
        self._kept: OrderedDict[Hashable, tuple[float, asyncio.Task[Any]]] = OrderedDict()

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[T]], seconds: float = SECONDS) -> T:
        """Return the result of `ask`, at most `seconds` old. Concurrent calls with the same key share one query.
        Raises what `ask` raises."""
        now = self._clock()
        kept = self._kept.get(key)
        if kept is None or kept[0] <= now or (kept[1].done() and (kept[1].cancelled() or kept[1].exception())):
            task = asyncio.ensure_future(_awaited(ask))
            kept = self._kept[key] = (now + seconds, task)
            task.add_done_callback(_seen)
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return cast(T, await asyncio.shield(kept[1]))  # a cancelled caller does not cancel it for the others

    def forget(self) -> None:
        """Invalidate the cache after a change."""
        self._kept.clear()


async def _awaited(ask: Callable[[], Awaitable[T]]) -> T:
    return await ask()


def _seen(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception, so that asyncio does not log it if every caller has left."""
    if not task.cancelled():
        task.exception()
