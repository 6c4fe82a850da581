"""Base class of clients: warns if a started client was not closed, and prevents `close` from waiting for itself."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Callable, Coroutine
from typing import Any

from bolide.client.messages.errors import ClientStateError
from bolide.client.messages.user_code import is_within


class Closeable:
    """Base class of clients that must be closed. An unclosed client issues a `ResourceWarning`, as an unclosed file
    does. Its last sends and offsets may be lost."""

    _open_in = 0
    """Id of the process that started the client, or 0 while the client is not open. A forked child has nothing to
    close."""
    _open_as = ""
    _closed = False
    """Whether the user has closed the client, possibly in code that `start` calls."""
    _leaving: asyncio.Task[None] | None = None

    def _opened(self, name: str) -> None:
        """Called when the client has started. `name` is its name in the warning."""
        self._open_in = 0 if self._closed else os.getpid()
        self._open_as = name

    def _check_open(self, name: str) -> None:
        """Raise `ClientStateError` if the client is closed."""
        if self._closed:
            raise ClientStateError(f"{name} is closed, make a new one")

    def _is_starting(self, lock: asyncio.Lock, *callers: object) -> bool:
        """Return whether `start` holds `lock` and one of `callers` is calling the user's code,
        because `start` waits for that call."""
        return lock.locked() and any(map(is_within, callers))

    def _closing(self) -> None:
        """Called when the user closes the client."""
        self._open_in = 0

    async def _close_outside(self, close: Callable[[], Coroutine[Any, Any, None]], *callers: object) -> None:
        """Run `close`. Run it in the background if one of `callers` is calling the user's code,
        because `close` waits for that call."""
        if not any(is_within(caller) for caller in callers):
            await close()
        elif self._leaving is None:
            self._leaving = asyncio.get_running_loop().create_task(close(), name=f"bolide close {self._open_as}")

    def _state(self) -> str:
        """Return the part of `repr` between the class and the state."""
        return ""

    def __repr__(self) -> str:
        life = "open" if self._open_in else "closed" if self._open_as else "not started"
        return f"<{type(self).__name__} {self._state()}, {life}>"

    def _warn_unclosed(self) -> None:
        """Warn once if the client is still open."""
        pid, self._open_in = self._open_in, 0
        if pid and pid == os.getpid():
            text = f"Unclosed {self._open_as}: close it, or use it in a `with` or `async with` block"
            warnings.warn(text, ResourceWarning, stacklevel=3, source=self)

    def __del__(self) -> None:
        self._warn_unclosed()
