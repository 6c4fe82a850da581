"""Transient failures, after which a long operation repeats a request instead of ending half done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from bolide.client.messages.errors import ResponseError
from bolide.client.producing.passing_failures import PASSING_CODES
from bolide.errors import ArgumentError, BolideError, ConfigError, ConnectionLost, RequestTimeout
from bolide.remoting import codes

T = TypeVar("T")

LASTING_CODES: Final = frozenset({codes.NO_PERMISSION, codes.REQUEST_CODE_NOT_SUPPORTED})
"""Responses that stay the same until someone changes a permission or the server."""
PAUSE_S: Final = 0.5


def is_transient(error: BolideError) -> bool:
    """Return whether a query may succeed later. Any rejection may end that does not depend on the sender, because
    servers that start or change their role respond with many codes."""
    if isinstance(error, ResponseError):
        return error.code not in LASTING_CODES
    return not isinstance(error, ArgumentError | ConfigError)


async def repeated(ask: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Return the result of a change that may be requested twice. Repeats it for up to `seconds` while its server is
    unreachable or busy; raises other errors immediately."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        try:
            return await ask()
        except (ConnectionLost, RequestTimeout):
            if loop.time() >= end:
                raise
        except ResponseError as error:
            if error.code not in PASSING_CODES or loop.time() >= end:
                raise
        await asyncio.sleep(PAUSE_S)
