"""Whether a process lives and whether it should be sent work: the pages /healthz and /readyz."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from bolide.monitor.http import PageAnswer, Request, said

PATIENCE_S: Final = 2.0
"""How long a loop may take to answer. A turn lasts some 20 ms, a probe of Kubernetes waits for 1 s unless told."""


class Pulse:
    """Asks the loop of a node for a sign of life, from the loop of another thread; one question at a time."""

    def __init__(
        self, soon: Callable[..., object], monotonic: Callable[[], float], patience: float = PATIENCE_S
    ) -> None:
        """`soon` is the node's `loop.call_soon_threadsafe`."""
        self._patience = patience
        self._soon = soon
        self._monotonic = monotonic
        self._answered = asyncio.Event()
        self._asked: float | None = None
        """When the question was put that is not answered yet."""

    async def stuck(self) -> str:
        """Why the loop counts as stuck, one sentence; "" when it answers."""
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
        """On the node's loop."""
        if not asker.is_closed():
            asker.call_soon_threadsafe(self._alive)

    def _alive(self) -> None:
        self._asked = None
        self._answered.set()


class Health:
    """The two pages. `troubles` says, at any moment and on any thread, why the node should get no work."""

    def __init__(self, pulse: Pulse, troubles: Callable[[], list[str]]) -> None:
        self._pulse = pulse
        self._troubles = troubles

    async def alive(self, request: Request) -> PageAnswer:
        """/healthz: 503 when only a restart would help."""
        stuck = await self._pulse.stuck()
        return said(503, stuck) if stuck else said(200, "alive")

    async def ready(self, request: Request) -> PageAnswer:
        """/readyz: 503 while clients should go elsewhere; a line for each reason."""
        stuck = await self._pulse.stuck()
        troubles = [stuck] if stuck else self._troubles()
        return said(503, *troubles) if troubles else said(200, "ready")
