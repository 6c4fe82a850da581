"""Waits for a condition, with a generous limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE: Final = 60.0
"""Limit in seconds for events in this process. Stalls of a busy core or a slow disk are shorter; the expiries of a
broker or a name server, which could cause the same event, are longer."""
PROCESS_PATIENCE: Final = 180.0
"""Limit in seconds for events in other processes, JVMs included. The timeout of a test is longer."""
_POLL_SECONDS: Final = 0.01
_LONGEST_POLL_SECONDS: Final = 0.1
_POLLS_OF_A_WAIT: Final = 50


def wait_until(condition: Callable[[], object], what: str = "", seconds: float = PROCESS_PATIENCE) -> None:
    """Poll until `condition` holds.

    Raises AssertionError with `what`, or with the place of the condition, if it does not hold within `seconds`.
    """
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        if waited > seconds:
            raise AssertionError(_in_vain(condition, what, seconds))
        # What takes long is asked for less often: the question is work, too, for this process and for others.
        time.sleep(min(max(_POLL_SECONDS, waited / _POLLS_OF_A_WAIT), _LONGEST_POLL_SECONDS))


async def until(condition: Callable[[], object], what: str = "", seconds: float = PATIENCE) -> None:
    """Like `wait_until`, while the event loop runs."""
    if not await holds_within(condition, seconds):
        raise AssertionError(_in_vain(condition, what, seconds))


async def holds_within(condition: Callable[[], object], seconds: float, every: float = _POLL_SECONDS) -> bool:
    """Wait until `condition` holds. Returns whether it did within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(every)
    return True


async def answers_within(ask: Callable[[], Awaitable[bool]], seconds: float, every: float) -> bool:
    """Call `ask` every `every` seconds until it returns True. Returns whether it did within `seconds`."""
    deadline = time.monotonic() + seconds
    while not await ask():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(every)
    return True


async def until_answered(ask: Callable[[], Awaitable[T]], wanted: T, seconds: float = PATIENCE) -> None:
    """Call `ask` until it returns `wanted`. Raises AssertionError with the last result after `seconds`."""
    deadline = time.monotonic() + seconds
    while (answer := await ask()) != wanted:
        assert time.monotonic() < deadline, f"{answer!r} is still not {wanted!r} after {seconds:g} s"
        await asyncio.sleep(_POLL_SECONDS)


def _in_vain(condition: Callable[[], object], what: str, seconds: float) -> str:
    code = getattr(condition, "__code__", None)
    place = f"the condition at {code.co_filename}:{code.co_firstlineno}" if code is not None else repr(condition)
    return f"waited {seconds:g} s in vain for {what or place}"
