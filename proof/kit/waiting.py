"""Waiting for a condition with a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE: Final = 60.0
"""Seconds for what comes soon, and on a machine with a slow or busy disk some time later."""


async def until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Return once `condition` holds; fail with `what` when it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for {what}"
        await asyncio.sleep(0.005)


async def until_answered(ask: Callable[[], Awaitable[T]], wanted: T, seconds: float = PATIENCE) -> None:
    """Return once a question is answered as wanted; fail with the last answer when it is not within `seconds`."""
    deadline = time.monotonic() + seconds
    while (answer := await ask()) != wanted:
        assert time.monotonic() < deadline, f"{answer!r} is still not {wanted!r} after {seconds} s"
        await asyncio.sleep(0.005)
