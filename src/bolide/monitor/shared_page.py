"""Shares a slow page between the requests that wait for it, and leaves the thread free between two pages.

The monitoring thread makes a page without an interruption. Without this class, a few scrapers in a row would keep the
thread from /healthz, and a liveness probe would restart a healthy process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bolide.monitor.http import PageAnswer, Request
from bolide.monitor.server import Page


class SharedPage:
    """Makes `inner` for all requests that wait; after it the thread is free for as long as the page took."""

    def __init__(self, inner: Page, kind: Callable[[Request], str], monotonic: Callable[[], float]) -> None:
        """`kind` is equal for requests that get the same page; it has few values, whatever peers send."""
        self._inner = inner
        self._kind = kind
        self._monotonic = monotonic
        self._free_until = 0.0
        """Seconds on the clock of `monotonic`: no page is made before."""
        self._waiting: dict[str, asyncio.Task[PageAnswer]] = {}
        """Pages that are not being made yet, by their kind."""

    async def page(self, request: Request) -> PageAnswer:
        """Return the page, no older than the request. Raises what `inner` raises."""
        kind = self._kind(request)
        task = self._waiting.get(kind)
        if task is None:
            task = self._waiting[kind] = asyncio.get_running_loop().create_task(self._make(kind, request))
        return await asyncio.shield(task)  # the others get it when this one goes

    async def _make(self, kind: str, request: Request) -> PageAnswer:
        await asyncio.sleep(0)  # requests of the same turn share it
        while (pause := self._free_until - self._monotonic()) > 0:
            await asyncio.sleep(pause)
        del self._waiting[kind]
        began = self._monotonic()
        try:
            return await self._inner(request)
        finally:
            now = self._monotonic()
            self._free_until = now + (now - began)
