"""Shares a slow page between concurrent requests, and keeps the thread idle for some time after each page.

The monitoring thread builds a page without interruption. Without this class, a few scrapes in a row would block
/healthz, and a liveness probe would restart a healthy process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bolide.monitor.http import PageAnswer, Request
from bolide.monitor.server import Page


class SharedPage:
    """Calls `inner` once for all pending requests. After each page, pauses for as long as the page took."""

    def __init__(self, inner: Page, kind: Callable[[Request], str], monotonic: Callable[[], float]) -> None:
        """Requests for which `kind` returns equal values share a page. It must return few values for any peer input."""
        self._inner = inner
        self._kind = kind
        self._monotonic = monotonic
        self._free_until = 0.0
        """Earliest start of the next page, in seconds of `monotonic`."""
        self._waiting: dict[str, asyncio.Task[PageAnswer]] = {}
        """Pages that have not been started yet, by kind."""

    async def page(self, request: Request) -> PageAnswer:
        """Return a page that was built after the call. Raises the exception of `inner`."""
        kind = self._kind(request)
        task = self._waiting.get(kind)
        if task is None:
            task = self._waiting[kind] = asyncio.get_running_loop().create_task(self._make(kind, request))
        return await asyncio.shield(task)  # a cancelled request does not cancel it for the others

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
