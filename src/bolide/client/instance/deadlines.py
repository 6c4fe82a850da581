"""Limits the time of one step of a call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from bolide.errors import RequestTimeout

T = TypeVar("T")


def no_connection(address: str) -> str:
    """Return the text of the error for a connection that was not open in time."""
    return f"no connection to {address} within the time allowed"


async def before(deadline: float, work: Awaitable[T], late: str) -> T:
    """Return the result of `work`. At `deadline`, a time of the loop in seconds, cancels it and raises `RequestTimeout`
    with the text `late`."""
    try:
        async with asyncio.timeout_at(deadline):
            return await work
    except RequestTimeout:
        raise
    except TimeoutError:
        raise RequestTimeout(late) from None
