"""Waiting for a condition with a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

PATIENCE: Final = 60.0
"""Seconds for what comes soon, and on a machine with a slow or busy disk some time later."""


async def until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Return once `condition` holds; fail with `what` when it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for {what}"
        await asyncio.sleep(0.005)
