"""Errors of code that the user provides: listeners, selectors, filters, hooks, interceptors, strategies, offset stores.

Such code may raise anything, including `SystemExit` and `CancelledError`. The client treats every error as a failure of
that call, as Java's client treats every Throwable. Only two errors are passed on: cancellation of the task that called
the code, and Ctrl-C in the main thread.

Two errors must not get into a future. Until Python 3.12.2, asyncio rejects a `StopIteration`, and the caller waits
without end. A `GeneratorExit` closes the coroutines that wait for the future. So code that runs in a thread is called
by `call_user_code`, and a future gets the other errors only if they are `fit_for_futures`.

Such code may also close the client that calls it. A client marks the calls that its `close` waits for, so that a
`close` in one of them does not wait for itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar, Token
from typing import Any, TypeVar

from bolide.errors import caused

T = TypeVar("T")
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


def call_user_code(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function of the user and return its result. Raises its exceptions, but a `RuntimeError` instead of a
    `StopIteration`, as a coroutine does (PEP 479), and instead of a `GeneratorExit`."""
    try:
        return function(*arguments)
    except (StopIteration, GeneratorExit) as error:
        raise caused(RuntimeError(f"{function!r} raised {type(error).__name__}"), error) from error


def fit_for_futures(error: BaseException) -> bool:
    """Return whether a future may contain an error of the user's code. An error that is not an `Exception` would end
    the task that awaits the future, or the loop."""
    return isinstance(error, Exception) and not isinstance(error, StopIteration)


async def result_of(future: Future[T]) -> T:
    """Wait for a future of the user, such as an executor's, and return its result. Raises like `call_user_code`.
    Cancellation also cancels the future."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def end(_: Future[T]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(ended.set)

    future.add_done_callback(end)
    try:
        await ended.wait()
    finally:
        future.cancel()  # does nothing if it has ended
    return call_user_code(future.result)


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
