"""A wait for something that a stop needs, which may never come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

LOOK_S: Final = 0.005


async def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Wait until something holds; False when it does not within the time."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(LOOK_S)
    return True
