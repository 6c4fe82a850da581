"""Errors of code that the user provides: listeners, selectors, filters, hooks, interceptors, strategies, offset stores.

Such code may raise anything, including `SystemExit` and `CancelledError`. The client treats every error as a failure of
that call, as Java's client treats every Throwable. Only two errors are passed on: cancellation of the task that called
the code, and Ctrl-C in the main thread.

Such code may also close the client that calls it. A client marks the calls that its `close` waits for, so that a
`close` in one of them does not wait for itself.
"""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar, Token

_callers: ContextVar[tuple[object, ...]] = ContextVar("bolide_callers", default=())


def raise_interruption(error: BaseException) -> None:
    """Re-raise `error` if it interrupts the caller; return if the user's code raised it."""
    if isinstance(error, asyncio.CancelledError):
        try:
            task = asyncio.current_task()
        except RuntimeError:  # the thread of a synchronous listener has no event loop
            return
        if task is not None and task.cancelling():
            raise error
    elif isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error


def enter(caller: object) -> Token[tuple[object, ...]]:
    """Mark the context of the running task: `caller` now calls user code. Pass the result to `leave`, unless the task
    ends with that code."""
    return _callers.set((*_callers.get(), caller))


def leave(token: Token[tuple[object, ...]]) -> None:
    """Undo `enter`."""
    _callers.reset(token)


def is_within(caller: object) -> bool:
    """Return whether the running code was called by `caller`, or is a task or thread that such code started.
    Waiting for that call would never end."""
    return any(each is caller for each in _callers.get())
