"""Answers of the cluster, kept for a moment: a page that many look at costs the brokers no more than one."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")

SECONDS: Final = 2.0
MOST: Final = 1_000
"""Answers kept; the oldest goes first."""


class Cached:
    """Each question is asked once, and once more when its answer is too old. Failures are not kept."""

    def __init__(self, clock: Callable[[], float], most: int = MOST) -> None:
        self._clock = clock
        self._most = most
        self._kept: OrderedDict[Hashable, tuple[float, asyncio.Task[Any]]] = OrderedDict()

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[T]], seconds: float = SECONDS) -> T:
        """The answer to `ask`, at most `seconds` old. Those that ask meanwhile wait for the same answer."""
        now = self._clock()
        kept = self._kept.get(key)
        if kept is None or kept[0] <= now or (kept[1].done() and (kept[1].cancelled() or kept[1].exception())):
            task = asyncio.ensure_future(_awaited(ask))
            kept = self._kept[key] = (now + seconds, task)
            task.add_done_callback(_seen)
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return cast(T, await asyncio.shield(kept[1]))  # who leaves early takes the answer from nobody

    def forget(self) -> None:
        """Something was changed: what is asked from here on is asked again."""
        self._kept.clear()


async def _awaited(ask: Callable[[], Awaitable[T]]) -> T:
    return await ask()


def _seen(task: asyncio.Task[Any]) -> None:
    """Every one that waits gets the exception; where nobody waits any more, it is of no use."""
    if not task.cancelled():
        task.exception()
