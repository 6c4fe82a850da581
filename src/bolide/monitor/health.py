"""The pages /healthz and /readyz: whether a process is alive, and whether clients should use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from bolide.monitor.http import PageAnswer, Request, said

PATIENCE_S: Final = 2.0
"""Timeout of a probe of the loop in seconds. A turn takes about 20 ms. The default timeout of a Kubernetes probe is
1 s."""


class Pulse:
    """Checks from another thread whether a node's event loop is responsive. One probe at a time."""

    def __init__(
        self, soon: Callable[..., object], monotonic: Callable[[], float], patience: float = PATIENCE_S
    ) -> None:
        """`soon` is `call_soon_threadsafe` of the node's loop. `patience` is the timeout in seconds."""
        self._patience = patience
        self._soon = soon
        self._monotonic = monotonic
        self._answered = asyncio.Event()
        self._asked: float | None = None
        """Monotonic time in seconds when the pending probe started, or None if no probe is pending."""

    async def stuck(self) -> str:
        """Return why the loop is unresponsive, as a clause for the page, or "" if it responds in time."""
        if self._asked is None:
            self._asked = self._monotonic()
            self._answered = asyncio.Event()
            try:
                self._soon(self._hear, asyncio.get_running_loop())
            except RuntimeError:
                return "the event loop has ended"
        try:
            async with asyncio.timeout(self._patience):
                await self._answered.wait()
        except TimeoutError:
            waited = self._monotonic() - (self._asked if self._asked is not None else 0.0)
            return f"the event loop has not responded for {waited:.1f} s"
        return ""

    def _hear(self, asker: asyncio.AbstractEventLoop) -> None:
        """Report to the loop of the prober that this loop is alive. Runs on the node's loop."""
        if not asker.is_closed():
            asker.call_soon_threadsafe(self._alive)

    def _alive(self) -> None:
        self._asked = None
        self._answered.set()


class Health:
    """The pages /healthz and /readyz. `troubles` returns the reasons why clients should not use the node. It must be
    thread-safe."""

    def __init__(self, pulse: Pulse, troubles: Callable[[], list[str]]) -> None:
        self._pulse = pulse
        self._troubles = troubles

    async def alive(self, request: Request) -> PageAnswer:
        """Return the page /healthz, with status 503 if only a restart would help."""
        stuck = await self._pulse.stuck()
        return said(503, stuck) if stuck else said(200, "alive")

    async def ready(self, request: Request) -> PageAnswer:
        """Return the page /readyz: status 503 with one line per reason while clients should use another node."""
        stuck = await self._pulse.stuck()
        troubles = [stuck] if stuck else self._troubles()
        return said(503, *troubles) if troubles else said(200, "ready")
