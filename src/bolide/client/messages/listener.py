"""Listeners: what a user's function may look like, and what its outcome means.

A listener is plain or async, takes one message or a list of them, and says nothing when all went well. A plain one runs
in a thread, since it may block; an async one runs on the loop and must not. If a plain one returns an awaitable, as a
lambda or a decorator's wrapper around an async function does, that runs on the loop while the thread waits. The thread
also waits for a future that an executor's `submit` returned.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from enum import Enum
from functools import partial
from typing import Any, Final, TypeVar

from bolide.client.messages.arguments import check_count
from bolide.client.messages.codec import CodecError
from bolide.client.messages.message import MAX_DELAY_LEVEL
from bolide.client.messages.received import ReceivedMessage
from bolide.client.messages.user_code import raise_interruption

log = logging.getLogger("bolide.client")

T = TypeVar("T")

Failed = list[tuple[ReceivedMessage, int]]
"""Messages to try again, each with a delay level: 0 lets the broker choose, -1 means the dead letter queue."""

BROKER_CHOOSES: Final = 0
DEAD_LETTER: Final = -1
"""The delay level that sends a message to the group's dead letter queue at once."""
PIECE: Final = 32
"""Most messages that one thread takes at a time: a hop to a thread costs more than a quick listener."""


class ConsumeResult(Enum):
    """What a listener may return; None and True mean SUCCESS, False means RETRY."""

    SUCCESS = "success"
    RETRY = "retry"


Outcome = ConsumeResult | bool | None
Listener = Callable[[ReceivedMessage], Outcome | Awaitable[Outcome]]
"""Takes one message."""
BatchListener = Callable[[list[ReceivedMessage]], Outcome | int | Awaitable[Outcome | int]]
"""Takes several messages of one queue; may also return how many at the front of the list are consumed."""


class RetryLater(Exception):
    """Raised by a listener to have a message tried again after a delay of its own choice (level 1 to 18).

    `DEAD_LETTER` (-1) gives up at once: the message goes to the group's dead letter queue. Raises `ArgumentError` for a
    level that does not exist.
    """

    def __init__(self, delay_level: int = BROKER_CHOOSES) -> None:
        check_count("delay_level", delay_level, DEAD_LETTER, MAX_DELAY_LEVEL)
        super().__init__(f"retry with delay level {delay_level}")
        self.delay_level = delay_level


class ListenerCall:
    """A user's listener with its shape worked out once. `batch` 0: one message a call; else up to so many."""

    __slots__ = ("batch", "is_async", "listener")

    def __init__(self, listener: Listener | BatchListener, batch: int = 0) -> None:
        self.listener: Callable[[Any], Any] = listener
        self.batch = batch
        called = getattr(listener, "__call__", None)  # noqa: B004  an object's method, asked for its kind, not for its being
        self.is_async = inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(called)

    async def run(self, messages: list[ReceivedMessage], threads: Executor) -> Failed:
        """Give messages to the listener; the outcome is what failed, in order. Never raises what a listener raises."""
        if not self.is_async:
            return await in_thread(threads, self._run_plain, messages, asyncio.get_running_loop())
        if self.batch:
            return await self._outcome(messages, messages)
        failed: Failed = []
        for message in messages:
            failed += await self._outcome(message, [message])
        return failed

    async def _outcome(self, given: Any, messages: list[ReceivedMessage]) -> Failed:
        # Awaits nothing after an error: a coroutine that is closed gets a GeneratorExit and must end.
        try:
            return failed_of(await self.listener(given), messages, self.batch > 0)
        except BaseException as error:
            return failed_by(error, messages)

    async def run_in_order(
        self, messages: list[ReceivedMessage], threads: Executor, stop: Callable[[], bool]
    ) -> tuple[int, int | None]:
        """As `run`, but nothing behind a failure is given out: how many went well, and the delay level of the failure.

        Ends early, with no failure, once `stop` says so.
        """
        if self.batch:
            failed = await self.run(messages, threads)
            return len(messages) - len(failed), failed[0][1] if failed else None
        if not self.is_async:
            return await in_thread(threads, self._in_order_plain, messages, stop, asyncio.get_running_loop())
        for count, message in enumerate(messages):
            if stop():
                return count, None
            failed = await self.run([message], threads)
            if failed:
                return count, failed[0][1]
        return len(messages), None

    def _in_order_plain(
        self, messages: list[ReceivedMessage], stop: Callable[[], bool], loop: asyncio.AbstractEventLoop
    ) -> tuple[int, int | None]:
        for count, message in enumerate(messages):
            if stop():
                return count, None
            failed = self._run_plain([message], loop)
            if failed:
                return count, failed[0][1]
        return len(messages), None

    def _run_plain(self, messages: list[ReceivedMessage], loop: asyncio.AbstractEventLoop) -> Failed:
        if self.batch:
            try:
                return failed_of(_waited(self.listener(messages), loop), messages, batch=True)
            except BaseException as error:
                return failed_by(error, messages)
        failed: Failed = []
        for message in messages:
            try:
                outcome = self.listener(message)
                if outcome is not None:
                    failed += failed_of(_waited(outcome, loop), [message])
            except BaseException as error:
                failed += failed_by(error, [message])
        return failed


async def in_thread(threads: Executor, work: Callable[..., T], *arguments: Any) -> T:
    """Call `work` in a thread, in the context of the running task."""
    run = copy_context().run
    return await asyncio.get_running_loop().run_in_executor(threads, partial(run, work, *arguments))


def _waited(outcome: Any, loop: asyncio.AbstractEventLoop) -> Any:
    """The result of an awaitable, which the loop runs, or of a future of other threads, such as an executor's: this
    thread waits for it. Other outcomes are returned unchanged."""

    if isinstance(outcome, bool):
        return outcome
    if isinstance(outcome, Future):
        return outcome.result()
    if not inspect.isawaitable(outcome):
        return outcome

    async def awaited() -> Any:
        return await outcome

    return asyncio.run_coroutine_threadsafe(awaited(), loop).result()


def failed_of(outcome: Any, messages: list[ReceivedMessage], batch: bool = False) -> Failed:
    """What a listener's return value leaves to be tried again; of a batch, a number of messages at the front went well.

    Other values than `Outcome` count as success for a single message, and are logged: functions return all kinds of
    things. Values that show that the work is still to be done or are of another library's enum are tried again.
    """
    if outcome is None or outcome is True or outcome is ConsumeResult.SUCCESS:
        return []
    if outcome is False or outcome is ConsumeResult.RETRY:
        return [(message, BROKER_CHOOSES) for message in messages]
    if type(outcome).__module__ == "numpy" and getattr(outcome, "shape", None) == ():
        return failed_of(outcome.item(), messages, batch)
    if batch and isinstance(outcome, int):
        return [(message, BROKER_CHOOSES) for message in messages[max(0, outcome) :]]
    undone = isinstance(outcome, Future) or inspect.isawaitable(outcome)
    undone = undone or inspect.isgenerator(outcome) or inspect.isasyncgen(outcome)
    if batch or undone or callable(outcome) or isinstance(outcome, Enum):
        what = "None, a bool, a ConsumeResult or a count" if batch else "None, a bool or a ConsumeResult"
        log.error("a listener returned %r, which says nothing: return %s", outcome, what)
        return [(message, BROKER_CHOOSES) for message in messages]
    log.warning("a listener returned %r, which counts as success: return None, a bool or a ConsumeResult", outcome)
    return []


def failed_by(error: BaseException, messages: list[ReceivedMessage]) -> Failed:
    """Return all messages of a call that raised. Raises `error` again if it is the caller's own interruption."""
    raise_interruption(error)
    if isinstance(error, RetryLater):
        return [(message, error.delay_level) for message in messages]
    if isinstance(error, CodecError):  # it names the message, and the traceback shows only the codec
        log.warning("a listener failed: %s", error)
    else:
        log.warning("a listener failed with %r on %r", error, messages[:1], exc_info=error)
    return [(message, BROKER_CHOOSES) for message in messages]
