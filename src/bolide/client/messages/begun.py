"""Eager calls of async listeners: a listener runs immediately, up to its first wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from types import CoroutineType
from typing import Any, Protocol

from bolide.client.messages.listener import Failed, failed_by, failed_of
from bolide.client.messages.received import ReceivedMessage


class Rest:
    """The rest of a coroutine that has started; await it in the task in which it started."""

    __slots__ = ("_coroutine", "_yielded")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], yielded: Any) -> None:
        self._coroutine = coroutine
        self._yielded = yielded

    def __await__(self) -> Generator[Any, Any, Any]:
        yielded = self._yielded
        while True:
            try:
                try:
                    sent = yield yielded
                except BaseException as error:  # usually a cancellation: the coroutine must handle it
                    yielded = self._coroutine.throw(error)
                else:
                    yielded = self._coroutine.send(sent)
            except StopIteration as end:
                return end.value


class Droppable(Protocol):
    """The queue of some messages, which another consumer may get at any time."""

    @property
    def dropped(self) -> bool:
        """Whether this consumer no longer has the queue."""


class _Calls:
    """The calls of `_each` so far: `through` calls finished successfully. The next call returned `other` instead of a
    coroutine, raised `error`, ended with `failed`, or waits."""

    __slots__ = ("error", "failed", "other", "through", "waits")

    def __init__(self) -> None:
        self.through = 0
        self.error: BaseException | None = None
        self.failed: Failed = []
        self.other: Any = None
        self.waits = False


def begun(
    listener: Callable[[Any], Any], messages: Sequence[ReceivedMessage], queue: Droppable
) -> tuple[int, Awaitable[Failed] | None]:
    """Call an async listener with each message in turn, until a call waits or fails, or `queue` is dropped.

    Returns the number of calls that finished successfully, and an awaitable result of the next call, or None if no call
    waited or failed. Never raises: the awaitable raises cancellations of the calling task and Ctrl-C instead.
    """
    calls = _Calls()
    coroutine = _each(listener, messages, queue, calls)
    try:
        yielded = coroutine.send(None)
    except StopIteration as end:
        through = calls.through
        if calls.error is not None:
            return through, _failed(calls.error, messages[through])
        if calls.failed:
            return through, _known(calls.failed)
        return through, None if end.value else _outcome(calls.other, messages[through])
    calls.waits = True
    return calls.through, _outcome(Rest(coroutine, yielded), messages[calls.through])


async def _each(
    listener: Callable[[Any], Any], messages: Iterable[ReceivedMessage], queue: Droppable, calls: _Calls
) -> Any:
    """Make the calls. Return whether all calls succeeded, or, if a call waited, the result of that call.

    Awaiting the calls in one coroutine costs less than starting each with `send`, which ends with an exception.
    """
    for message in messages:
        if queue.dropped:
            break
        try:
            called = listener(message)
            if type(called) is not CoroutineType:
                calls.other = called
                return False
            value = await called
        except BaseException as error:  # also a StopIteration that the listener raised before it had a coroutine
            if calls.waits:
                raise
            calls.error = error
            return False
        if calls.waits:
            return value
        if value is not None:
            calls.failed = failed_of(value, [message])
            if calls.failed:
                return False
        calls.through += 1
    return True


async def _outcome(rest: Awaitable[Any], message: ReceivedMessage) -> Failed:
    try:
        return failed_of(await rest, [message])
    except BaseException as error:
        return failed_by(error, [message])


async def _known(failed: Failed) -> Failed:
    return failed


async def _failed(error: BaseException, message: ReceivedMessage) -> Failed:
    return failed_by(error, [message])
