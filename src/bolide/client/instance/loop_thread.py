"""The private event loop on which the blocking client runs the native client.

One daemon thread per process, started at its first use. Heartbeats, rebalance and offset commits run there while the
caller computes. A forked child has the objects but not the thread, so every call in it raises `ClientForked`.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final, TypeVar

from bolide.client.messages.errors import ClientForked, ClientStateError

log = logging.getLogger("bolide.client")

T = TypeVar("T")
Items = TypeVar("Items", bound=Iterator[Any])

EXIT_PATIENCE: Final = 5.0
LOOK_S: Final = 0.5
"""Interval at which a blocked call lets Python run signal handlers that did not wake it, in seconds."""


class LoopThread:
    """An event loop on a dedicated thread. Call its methods from any other thread."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._loop = _new_loop()
        self._stopping = False
        self._calls: deque[Callable[[], None]] = deque()
        """Calls for the loop's thread, which is woken once for all of them."""
        self._woken = False
        self._thread = threading.Thread(target=self._run, name="bolide-client", daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._stopping:
            try:
                self._loop.run_forever()
            except BaseException as error:
                # SystemExit and KeyboardInterrupt leave run_forever. They are also the outcome of the task that raised
                # them, so the loop continues for the other clients of the process.
                log.error("code on the client's loop raised %r, the loop continues", error, exc_info=error)
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    def stop(self) -> None:
        """Stop the loop and its tasks; called when the interpreter exits."""
        if os.getpid() == self.pid and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop)
            self._thread.join(EXIT_PATIENCE)

    def _stop(self) -> None:
        self._stopping = True
        self._loop.stop()

    def _check(self) -> None:
        if os.getpid() != self.pid:
            raise ClientForked(
                f"this client was made in process {self.pid} and cannot be used in its child {os.getpid()}:"
                " make a new one after the fork"
            )
        if threading.current_thread() is self._thread:
            raise ClientStateError("a blocking call was made on the client's own loop: use the native client there")

    def run(self, work: Callable[[], Coroutine[Any, Any, T]], undo: Callable[[T], object] | None = None) -> T:
        """Run a coroutine and return its result. An interrupt of the caller (Ctrl-C) cancels the coroutine.

        `undo` is called on the loop's thread with a result that the interrupted caller did not receive.
        """
        self._check()
        tasks: list[asyncio.Task[Any]] = []  # used only by the loop's thread after this
        results: list[T] = []
        interrupted = asyncio.Event()

        async def running() -> T:
            task = asyncio.current_task()
            assert task is not None
            tasks.append(task)
            if interrupted.is_set():
                raise asyncio.CancelledError
            result = await work()
            if interrupted.is_set() and undo is not None:
                undo(result)
            results.append(result)
            return result

        def take_back() -> None:
            interrupted.set()
            for task in tasks:
                task.cancel()
            if results and undo is not None:
                undo(results[0])

        try:
            # An interrupt may arrive before the future exists: then the loop's thread cancels the task.
            return received(asyncio.run_coroutine_threadsafe(running(), self._loop))
        except BaseException:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and its clients are closed
                self._loop.call_soon_threadsafe(take_back)
            raise

    def leave(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine that closes a client. Returns immediately in a forked child, because the client belongs to
        the parent: an error would replace the exception that ends the child, such as SystemExit in a `with` block."""
        if os.getpid() == self.pid:
            self.run(work)

    def call(self, work: Callable[[], T]) -> T:
        """Run a function on the loop's thread and return its result."""
        self._check()
        if not self._thread.is_alive():
            return work()
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def do() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        self._loop.call_soon_threadsafe(do)
        return received(future)

    def submit(self, work: Callable[[], asyncio.Future[T]]) -> concurrent.futures.Future[T]:
        """Call `work` on the loop without waiting. The future also contains exceptions of the call itself.

        Calls in quick succession wake the loop's thread only once.
        """
        self._check()
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def do() -> None:
            if future.cancelled():
                future.set_running_or_notify_cancel()
                return
            try:
                inner = work()
            except BaseException as error:
                _settle(future, error)
                return
            inner.add_done_callback(partial(_copy, future))
            future.add_done_callback(partial(self._cancel, inner))

        self._calls.append(do)
        if not self._woken:
            try:
                self._woken = True  # before the thread is woken: the calls may run immediately
                self._loop.call_soon_threadsafe(self._run_calls)
            except BaseException:  # the loop has ended, or a signal handler raised: the next caller wakes the thread
                self._woken = False
                raise
        return future

    def _run_calls(self) -> None:
        self._woken = False  # before the calls run: a call that is added later wakes the thread again
        for _ in range(len(self._calls)):
            self._loop.call_soon(self._calls.popleft())

    def _cancel(self, inner: asyncio.Future[T], future: concurrent.futures.Future[T]) -> None:
        if future.cancelled():
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(inner.cancel)

    def iterate(self, make: Callable[[], AsyncIterator[T]], undo: Callable[[T], object] | None = None) -> Iterator[T]:
        """Iterate over an async iterator from a blocking thread. `undo` has the same meaning as in `run`."""
        iterator = self.call(make)

        async def following() -> T:
            return await anext(iterator)

        while True:
            try:
                item = self.run(following, undo)
            except StopAsyncIteration:
                return
            yield item

    def iterate_lists(self, make: Callable[[], AsyncIterator[Items]], undo: Callable[[Items], object]) -> Iterator[Any]:
        """Like `iterate`, but iterate over the items of lists. There is one hop between threads for each list."""
        for items in self.iterate(make, undo):
            yield from items


def _copy(future: concurrent.futures.Future[T], inner: asyncio.Future[T]) -> None:
    """Copy the outcome of `inner` to `future`."""
    if inner.cancelled():
        future.cancel()
        future.set_running_or_notify_cancel()
        return
    error = inner.exception()
    if error is not None:
        _settle(future, error)
    elif future.set_running_or_notify_cancel():
        future.set_result(inner.result())


def _settle(future: concurrent.futures.Future[T], error: BaseException) -> None:
    if future.set_running_or_notify_cancel():
        future.set_exception(error)


def received(future: concurrent.futures.Future[T]) -> T:
    """Wait for a future and return its result. A signal that arrives just before the thread sleeps does not wake it, so
    its handler, such as Ctrl-C's, runs up to `LOOK_S` later."""
    while True:
        try:
            return future.result(LOOK_S)
        except TimeoutError:
            if future.done():
                return future.result()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # not available on Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


_lock = threading.Lock()
_threads: list[LoopThread] = []


def loop_thread() -> LoopThread:
    """Return the loop thread of this process; a forked child gets a new one."""
    with _lock:
        if not _threads or _threads[-1].pid != os.getpid():
            _threads.append(LoopThread())
        return _threads[-1]


def _reset_lock() -> None:
    """Replace the lock, which the parent may have held during the fork."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_reset_lock)
