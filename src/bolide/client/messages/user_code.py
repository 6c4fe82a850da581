"""Errors of code that the user provides: listeners, selectors, filters, hooks, interceptors, strategies, offset stores.

Such code may raise anything, `SystemExit` and `CancelledError` included. The client treats every error as a failure of
that call, as Java's client treats every Throwable. Only two errors are not the code's own: the cancellation of the task
that called it, and Ctrl-C in the main thread.
"""

from __future__ import annotations

import asyncio
import threading


def raise_interruption(error: BaseException) -> None:
    """Raise `error` again if it interrupts the caller; return if the user's code raised it."""
    if isinstance(error, asyncio.CancelledError):
        try:
            task = asyncio.current_task()
        except RuntimeError:  # a plain listener's thread has no event loop
            return
        if task is not None and task.cancelling():
            raise error
    elif isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error
