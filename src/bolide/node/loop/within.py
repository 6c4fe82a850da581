"""Waits for a condition at shutdown, with a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

LOOK_S: Final = 0.005


async def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Poll `condition` until it is true. Return False after `seconds`."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(LOOK_S)
    return True
