"""Listeners: the allowed forms of a user's function, and the meaning of its result.

A listener is synchronous or async, and its argument is one message or a list. It need not return anything on success. A
synchronous listener runs in a thread, because it may block; an async one runs on the loop and must not. If a
synchronous listener returns an awaitable, as a lambda or a decorator around an async function does, the loop runs it
while the thread waits. The thread also waits for a future that an executor's `submit` returned.
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
from typing import Any, Final, TypeVar, get_origin

from bolide.client.messages.arguments import check_count
from bolide.client.messages.codec import Codec, CodecError
from bolide.client.messages.encoding import MAX_DELAY_LEVEL
from bolide.client.messages.received import ReceivedMessage
from bolide.client.messages.user_code import raise_interruption

log = logging.getLogger("bolide.client")

T = TypeVar("T")

Failed = list[tuple[ReceivedMessage, int]]
"""Messages to retry, each with a delay level: 0 lets the broker choose, -1 means the dead letter queue."""

BROKER_CHOOSES: Final = 0
DEAD_LETTER: Final = -1
"""The delay level that sends a message to the group's dead letter queue immediately."""
PIECE: Final = 32
"""Maximum number of messages per job of a thread: a thread switch costs more than a fast listener."""
BATCH: Final = 256
"""Default maximum number of messages per call of a listener that takes a list."""
_LISTS: Final = ("list", "List", "Sequence", "Collection", "Iterable")


class ConsumeResult(Enum):
    """Results of a listener; None and True mean SUCCESS, False means RETRY."""

    SUCCESS = "success"
    RETRY = "retry"


Outcome = ConsumeResult | bool | None
Listener = Callable[[ReceivedMessage], Outcome | Awaitable[Outcome]]
"""Called with one message."""
BatchListener = Callable[[list[ReceivedMessage]], Outcome | int | Awaitable[Outcome | int]]
"""Called with several messages of one queue; may also return the number of consumed messages at the front of the
list."""


class RetryLater(Exception):
    """Raise this in a listener to retry a message after the delay of a level (1 to 18).

    `DEAD_LETTER` (-1) sends the message to the group's dead letter queue without a retry. Raises `ArgumentError` for an
    invalid level.
    """

    def __init__(self, delay_level: int = BROKER_CHOOSES) -> None:
        check_count("delay_level", delay_level, DEAD_LETTER, MAX_DELAY_LEVEL)
        super().__init__(f"retry with delay level {delay_level}")
        self.delay_level = delay_level


def takes_list(listener: Callable[..., Any]) -> bool:
    """Return whether the argument of a listener is annotated as a list of messages. Annotations that are text are not
    evaluated, because their names may exist only for a type checker."""
    try:
        parameters = list(inspect.signature(listener).parameters.values())
    except (TypeError, ValueError):  # a function of an extension
        return False
    annotation: Any = parameters[0].annotation if parameters else None
    if not isinstance(annotation, str):
        annotation = getattr(get_origin(annotation) or annotation, "__name__", "")
    return annotation.strip("'\"").partition("[")[0].rpartition(".")[2].strip() in _LISTS


class ListenerCall:
    """A user's listener, inspected once. `batch` is the maximum number of messages per call,
    or 0 for a single message. `codec` decodes its messages."""

    __slots__ = ("batch", "codec", "is_async", "listener")

    def __init__(self, listener: Listener | BatchListener, batch: int = 0, codec: Codec | None = None) -> None:
        self.listener: Callable[[Any], Any] = listener
        self.batch = batch
        self.codec = codec
        called = getattr(listener, "__call__", None)  # noqa: B004  the method, to see whether it is async
        self.is_async = inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(called)

    async def run(self, messages: list[ReceivedMessage], threads: Executor) -> Failed:
        """Call the listener. Return the failed messages, in order. Never raises the listener's errors."""
        if not self.is_async:
            return await in_thread(threads, self._run_plain, messages, asyncio.get_running_loop())
        if self.batch:
            return await self._outcome(messages, messages)
        failed: Failed = []
        for message in messages:
            failed += await self._outcome(message, [message])
        return failed

    async def _outcome(self, given: Any, messages: list[ReceivedMessage]) -> Failed:
        # Await nothing after an error: a closed coroutine gets a GeneratorExit and must end.
        try:
            return failed_of(await self.listener(given), messages, self.batch > 0)
        except BaseException as error:
            return failed_by(error, messages)

    async def run_in_order(
        self, messages: list[ReceivedMessage], threads: Executor, stop: Callable[[], bool]
    ) -> tuple[int, int | None]:
        """Like `run`, but stop at the first failure. Return the number of successes, and the delay level of the
        failure.

        Also stops once `stop` returns True, with None instead of a level.
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
    """Wait in this thread for an awaitable, which the loop runs, or for a future, such as an executor's; return the
    result. Other outcomes are returned unchanged."""

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
    """Return the messages to retry after a listener returned `outcome`. For a batch, an int is the number consumed.

    For a single message, values other than `Outcome` are logged and treated as success, because functions return all
    kinds of values. Values that mean unfinished work, and members of another library's enum, are treated as failures.
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
        log.error("a listener returned %r, which is not a result: return %s", outcome, what)
        return [(message, BROKER_CHOOSES) for message in messages]
    log.warning("a listener returned %r, which is treated as success: return None, a bool or a ConsumeResult", outcome)
    return []


def failed_by(error: BaseException, messages: list[ReceivedMessage]) -> Failed:
    """Return all messages of a call that raised. Re-raises `error` if it interrupts the caller."""
    raise_interruption(error)
    if isinstance(error, RetryLater):
        return [(message, error.delay_level) for message in messages]
    if isinstance(error, CodecError):  # the error names the message, and the traceback shows only the codec
        log.warning("a listener failed: %s", error)
    else:
        log.warning("a listener failed with %r on %r", error, messages[:1], exc_info=error)
    return [(message, BROKER_CHOOSES) for message in messages]
