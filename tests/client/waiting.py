"""Waiting for a condition with a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


async def until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    """Return once `condition` holds; fail with `what` when it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for {what}"
        await asyncio.sleep(0.005)
